"""Edits in architectures with experts, a recurrent state and latent attention, against torch's
hooks (tests/goldens/make_row_edits.py).
"""

import lzma
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from engine.protocol import Edit
from engine.runner import load
from engine.runner.edits import edits_for
from engine.runner.stepper import StepPart
from tests.goldens.make_edits import LAYER, N_TOKENS, ROWS, vectors
from tests.kernels.harness import nmse

GOLDENS = Path(__file__).parents[3] / "goldens"


@cache
def wanted() -> dict[str, np.ndarray]:
    with np.load(GOLDENS / "row_edits.npz") as file:
        return dict(file)


def edit_named(site: str, op: str, width: int) -> Edit:
    """What the golden's hook does."""
    d, e = vectors(width)
    made = {
        "set": Edit.of("set", site, LAYER, 0.5, d),
        "constant": Edit.of("set", site, LAYER, -0.75),
        "add": Edit.of("add", site, LAYER, 1.5, d),
        "scale": Edit.of("scale", site, LAYER, 0.5),
        "project": Edit.of("project", site, LAYER, 0.8, d),
        "hold": Edit.of("hold", site, LAYER, 2.0, d),
        "swap": Edit.of("swap", site, LAYER, 1.0, d, e),
    }
    return made[op]


@pytest.mark.parametrize("row", ["qwen3moe", "deepseek_v2", "mamba", "lfm2"])
def test_edits_are_what_hooks_of_torch_do(row: str, tmp_path: Path) -> None:
    path = tmp_path / "row.gguf"
    path.write_bytes(lzma.decompress((GOLDENS / "text" / f"{row}.gguf.xz").read_bytes()))
    with np.load(GOLDENS / "text" / f"{row}.npz") as stored:
        tokens = stored["ids"][0][:N_TOKENS].tolist()
    errors = {}
    with load(path, device="host", kv="f32", ctx=64) as model:
        built, stepper = model.loaded.built, model.loaded.stepper
        for key, rows in wanted().items():
            of, site, op = key.split()
            if of != row:
                continue
            edit = edit_named(site, op, built.results.at(site, LAYER)[0].width)
            part = StepPart(tokens, 0, range(N_TOKENS), edits=edits_for(built, [edit], N_TOKENS))
            errors[key] = nmse(stepper.start_together([part])()[-ROWS:], rows)
            stepper.forget(0)
    assert len(errors) == {"mamba": 14, "lfm2": 21}.get(row, 28)
    assert max(errors.values()) < 1e-6, errors
