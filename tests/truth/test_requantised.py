"""The real models in every type that the `gguf` package writes: perplexity on every device is the
host's on the same file, to a hundredth.
"""

from pathlib import Path

import gguf
import numpy as np
import pytest

from engine.backends.opencl.drivers.device import list_devices
from engine.gguf import open_gguf
from engine.gguf.formats import by_name
from engine.runner import load
from engine.runner.perplexity import score
from tests.gguf_files import Blocks, drafted
from tests.truth.measure import GOLDENS

TYPES = ("F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4")
CHUNK, CHUNKS = 512, 4
# Characters of the text that make some more tokens than are scored.
TEXT = (GOLDENS / "text.txt").read_text("utf-8")[: CHUNK * CHUNKS * 5]


def requantise(source: Path, target: Path, name: str) -> Path:
    """Every matrix of the file, the embedding too, as `name`; norms stay."""
    fmt, kind = by_name(name), gguf.GGMLQuantizationType[name]
    with open_gguf(source) as file:
        draft = drafted(file)
        for tensor, info in file.tensors.items():
            if info.n_dims == 2 and info.shape[0] % fmt.block == 0:
                data = np.ascontiguousarray(gguf.quantize(file.array(tensor), kind))
                draft.tensors[tensor] = Blocks(fmt.id, info.shape[:2], data.tobytes())
        return draft.write(target)


def perplexity(path: Path, device: str) -> float:
    with load(path, device=device, ctx=CHUNK) as model:
        loaded = model.loaded
        runs = score(loaded.stepper, loaded.tokenizer, TEXT, CHUNK, 0, lambda: False)
        for done, _, result in runs:
            if done == CHUNKS:
                return result.perplexity
    raise AssertionError("the text is too short")


@pytest.mark.full
@pytest.mark.model_file
@pytest.mark.device
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("model", ["smollm2", "gemma3"])
def test_perplexity_is_the_hosts(
    model: str, name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path = requantise(request.getfixturevalue(f"{model}_path"), tmp_path / "model.gguf", name)
    devices = [info.name for info in list_devices()]
    assert devices
    want = perplexity(path, "host")
    for device in devices:
        got = perplexity(path, device)
        print(f"{model} {name} on {device}: {got:.4f}, host {want:.4f}")
        assert got == pytest.approx(want, rel=0.01)
    path.unlink()
