"""Latents in a cache: what a shift does to their rows, and how they are looked at."""

from pathlib import Path

import numpy as np
import pytest

from engine.backends.opencl.drivers.device import list_devices
from engine.errors import BadSetting
from engine.gguf import open_gguf
from engine.inside.token.attention import lookings
from engine.models.build import build_model
from engine.runner import load
from engine.runner.api import Model
from tests.engine.models.text.files import golden, write
from tests.engine.models.text.rows import ROWS

DEVICES = ["host", *[d.name for d in list_devices() if d.default][:1]]


def rows_of(model: Model, layer: int) -> np.ndarray:
    """[positions, r + R], in order of their positions."""
    built, placed = model.loaded.built, model.loaded.stepper.planner.placed
    kept = built.layers[layer]
    assert kept is not None
    at = placed[kept.k]
    raw = at.buffer.read(at.offset, kept.k.nbytes).view("<f4").reshape(-1, kept.k.shape[0])
    cells = built.caches.caches[kept.cache].cells
    used = np.flatnonzero(cells[:, 0])
    return raw[used[np.argsort(cells[used, 1])]]


@pytest.mark.parametrize("device", DEVICES)
def test_a_shift_turns_the_first_channels_alone(device: str, tmp_path: Path) -> None:
    """Rows of layer 0 depend on token and position alone: shifted ones equal those made there."""
    row = ROWS["deepseek_v3"]  # its positions are scaled
    tokens = golden(row)[0][0][:40].tolist()
    with load(write(row, tmp_path), device=device, kv="f32", ctx=64) as model:
        stepper = model.loaded.stepper
        stepper.step(tokens, 0, [39])
        before = rows_of(model, 0)
        stepper.forget(4, 19)
        shifted = rows_of(model, 0)
        stepper.forget(0)
        stepper.step(tokens[:4] + tokens[19:], 0, [24])
        fresh = rows_of(model, 0)
    assert shifted.shape == fresh.shape == (25, 24)
    np.testing.assert_allclose(shifted, fresh, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(shifted[4:, 8:], before[19:, 8:])
    assert np.abs(shifted[4:, :8] - before[19:, :8]).max() > 0.1


def test_heads_look_at_latents(tmp_path: Path) -> None:
    with load(write(ROWS["deepseek_v2"], tmp_path), device="host", ctx=64) as model:
        graph = model.loaded.stepper.one_token().graph
        found = lookings(graph, model.loaded.built.layers)
    assert [(one.layer, one.q.dims) for one in found] == [(i, (24, 4)) for i in range(3)]


@pytest.mark.parametrize("name", ["deepseek32", "glm-dsa", "minimax-m3"])
def test_a_context_that_needs_the_index_is_refused(name: str, tmp_path: Path) -> None:
    """The file has `context_length` 512, and an index of 128 tokens."""
    with open_gguf(write(ROWS[name], tmp_path)) as file:
        assert build_model(file, None, 16).n_ctx == 128
        assert build_model(file, 64, 16).n_ctx == 64
        with pytest.raises(BadSetting, match="at most 128; an index"):
            build_model(file, 129, 16)
