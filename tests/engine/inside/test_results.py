"""Results of the step that made a word: those of the same step computed anew."""

from pathlib import Path

import numpy as np

from engine.protocol import Examine, Examined, Load, ResultPart
from engine.runner import load
from engine.settings import EngineOptions
from engine.worker import Worker

TEXT = "the hat on the heath"


def test_results_of_one_word(worker: Worker, tiny_path: Path) -> None:
    """In parts before what ends the request; the context's last token was read then."""
    with load(tiny_path, device="host", ctx=64) as model:
        (whole,) = (v for k, v in model.dump(TEXT, "ffn_out-0").items() if k.endswith("@0"))
    options = EngineOptions(device="host", ctx=64)
    worker.get(Load(worker.new_id(), str(tiny_path), options))
    asked = Examine(worker.new_id(), prompt=TEXT, probes=["ffn_out-0", "Qcur-1"])
    *told, last = worker.run(asked)
    assert isinstance(last, Examined)
    parts = [one for one in told if isinstance(one, ResultPart)]
    found = [(one.info.name, one.info.occurrence, one.info.dims) for one in parts]
    assert found == [("ffn_out-0", 0, [64, 1]), ("Qcur-1", 0, [64, 1]), ("Qcur-1", 1, [16, 4, 1])]
    values = np.frombuffer(parts[0].data, "<f4")
    np.testing.assert_allclose(values, whole[last.n_context - 1], atol=2e-3)
    assert (parts[0].info.device, parts[0].info.op) == ("host", "matmul")
