"""Rows of pictures in a step: where tokens are, who sees them, by what their keys turn."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.backends.opencl.drivers.device import list_devices
from engine.gguf.formats import F16, F32
from engine.graph.tensor import Role, leaf
from engine.kvcache.causal import CausalCache
from engine.layers.rope import RopeParams, Sections
from engine.layers.step import Pass, Step
from engine.models.kept import Cells, make_caches
from engine.runner import load
from engine.runner.api import Model
from engine.runner.stepper import Extras
from tests.goldens.tiny import ARCHITECTURES, tiny_tokens, write_tiny

DEVICES = ["host", *(d.name for d in list_devices() if d.default)]
FIRST, LAST = 5, 11
"""The rows of the picture are the tokens from FIRST up to LAST."""


@pytest.fixture(params=ARCHITECTURES)
def architecture(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=DEVICES)
def model(request: pytest.FixtureRequest, architecture: str, tmp_path: Path) -> Iterator[Model]:
    """One whose steps take a row for each place."""
    path = write_tiny(tmp_path / "tiny.gguf", architecture)
    with load(path, device=request.param, ctx=64) as model:
        stepper = model.loaded.stepper
        model.loaded.room.stepper = replace(stepper, built=replace(stepper.built, planes=1))
        yield model


def as_rows(model: Model, tokens: np.ndarray) -> tuple[list[int], np.ndarray]:
    """The tokens, of which some have become the rows that enter the first layer for them."""
    table = model.tensor("token_embd.weight")
    scale = np.sqrt(table.shape[1]) if model.loaded.built.arch == "gemma3" else 1
    rows = np.zeros((len(tokens), table.shape[1]), np.float32)
    rows[FIRST:LAST] = table[tokens[FIRST:LAST]] * scale
    return [-1 if FIRST <= i < LAST else t for i, t in enumerate(tokens.tolist())], rows


def logits(model: Model, tokens: list[int], extras: Extras) -> np.ndarray:
    stepper = model.loaded.stepper
    stepper.forget(0)
    return stepper.step(tokens, 0, range(len(tokens)), extras=extras)


@pytest.mark.each_value
def test_rows_are_read_as_the_tokens_they_stand_for(model: Model, architecture: str) -> None:
    tokens = tiny_tokens(architecture)[:20]
    plain = logits(model, tokens.tolist(), Extras())
    given, rows = as_rows(model, tokens)
    np.testing.assert_allclose(logits(model, given, Extras(rows)), plain, atol=1e-4)
    rows[FIRST] += 1
    assert abs(logits(model, given, Extras(rows))[FIRST] - plain[FIRST]).max() > 0.01


def test_all_rows_of_a_group_see_each_other_and_nothing_behind(
    model: Model, architecture: str
) -> None:
    tokens = tiny_tokens(architecture)[:20]
    given, rows = as_rows(model, tokens)
    ends = np.arange(len(tokens), dtype=np.int32)
    ends[FIRST:LAST] = LAST - 1
    seen = logits(model, given, Extras(rows, ends=ends))
    other = rows.copy()
    other[LAST - 1] += 1
    changed = abs(logits(model, given, Extras(other, ends=ends)) - seen).max(axis=1)
    assert (changed[:FIRST] == 0).all()
    assert (changed[FIRST:] > 1e-4).all()
    behind = tokens.copy()
    behind[LAST] += 1
    after = list(given)
    after[LAST] = int(behind[LAST])
    changed = abs(logits(model, after, Extras(rows, ends=ends)) - seen).max(axis=1)
    assert (changed[:LAST] == 0).all()
    assert changed[LAST] > 1e-4


def test_a_window_ends_with_the_group_and_begins_as_ever() -> None:
    cache = CausalCache(32, window=4)
    positions = np.arange(8, dtype=np.int32)
    ends = np.array([0, 1, 5, 5, 5, 5, 6, 7], np.int32)
    spans = cache.start(positions, 0, ends).spans
    np.testing.assert_array_equal(spans[:, 2], ends)
    np.testing.assert_array_equal(spans[:, 1], [0, 0, 0, 0, 1, 2, 3, 4])


def test_keys_turn_by_places_where_a_model_has_several_axes() -> None:
    rope = RopeParams(16, 1e4, neox=True, sections=Sections((2, 3, 3, 0)))
    one = RopeParams(16, 1e4, neox=True)
    caches, _ = make_caches([Cells(16, 16, 1, rope)], 256, 8, F16)
    p = Pass(4, 1, (256,), planes=1)
    x = leaf("x", F32, (16, 2, 4), Role.INPUT)
    several, single = p.rope(x, rope).src[1], p.rope(x, one).src[1]
    positions = np.arange(3, 7, dtype=np.int32)
    places = np.array([[3, 4, 4, 6], [3, 4, 5, 6], [3, 4, 4, 6], [0, 0, 0, 0]], np.int32)
    steps = tuple(caches.start(positions, 0))
    filled = p.fill(Step(positions, positions, positions[:1], steps, None, places))
    np.testing.assert_array_equal(filled[several], rope.table(places))
    np.testing.assert_array_equal(filled[single], one.table(positions))
    filled = p.fill(Step(positions, positions, positions[:1], steps))
    np.testing.assert_array_equal(filled[several], rope.table(positions))


def test_extra_rows_come_after_the_layers_they_are_for() -> None:
    p = Pass(2, 1, (), planes=3)
    x = leaf("x", F32, (4, 2), Role.INPUT)
    assert p.with_pictures(x) is not x
    first, second = p.deepstack(0), p.deepstack(1)
    assert first is not None
    assert second is not None
    assert p.deepstack(2) is None
    rows = np.arange(24, dtype=np.float32).reshape(2, 12)
    ids = np.zeros(2, np.int32)
    filled = p.fill(Step(ids, ids, ids[:1], (), rows))
    np.testing.assert_array_equal(filled[first], rows[:, 4:8])
    np.testing.assert_array_equal(filled[second], rows[:, 8:])
    plain = Pass(2, 1, ())
    assert plain.with_pictures(x) is x
    assert plain.deepstack(0) is None
