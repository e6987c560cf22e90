"""Steps of several sequences: each has the logits that it has alone."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.errors import ContextFull, NotSupported
from engine.runner.api import Model, load
from engine.runner.stepper import StepPart
from tests.engine.runner.answering.many import ids, tiny

pytestmark = pytest.mark.full_cases(r"\[gemma3")

N = 5


@pytest.fixture(params=["llama", "gemma3", "mistral3", "qwen35", "mamba2", "granitehybrid"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Model]:
    with load(
        tiny(tmp_path, request.param), device="host", ctx=64, parallel=N, cells=N * 64
    ) as model:
        yield model


def alone(model: Model, tokens: list[int]) -> np.ndarray:
    model.loaded.stepper.forget(0, sequence=20)
    return model.loaded.stepper.step(tokens, 0, range(len(tokens)), 20)


def test_parts_of_several_have_the_logits_that_each_has_alone(model: Model) -> None:
    """Pieces of prompts beside single tokens, lengths all different, in several steps."""
    stepper = model.loaded.stepper
    tokens = ids(3, 40)
    texts = [tokens[i:] + tokens[:i] for i in range(N)]
    wanted = [alone(model, text) for text in texts]
    stepper.forget(0, sequence=20)
    at = [0] * N
    for step in range(12):
        parts, expected = [], []
        for s in range(N):
            n = (1, 3, 7)[(step + s) % 3]
            if (s + step) % 4 == 0 or at[s] + n > len(texts[s]):
                continue  # it waits
            rows = [n - 1] if s % 2 else list(range(n))
            parts.append(StepPart(texts[s][at[s] : at[s] + n], at[s], rows, s))
            expected += [wanted[s][at[s] + row] for row in rows]
            at[s] += n
        if parts:
            logits = stepper.start_together(parts)()
            np.testing.assert_allclose(logits, expected, rtol=2e-2, atol=2e-2)
    assert min(at) > 12  # beyond gemma3's window of 8


def test_a_step_that_fails_leaves_all_as_they_were(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepper, caches = model.loaded.stepper, model.loaded.built.caches
    stepper.step([5, 6, 7], 0, [2], 0)
    before, states = [cache.cells.copy() for cache in caches.caches], caches.states.bits.copy()
    parts = [StepPart([8], 3, [0], 0), StepPart([9, 10], 0, [1], 1)]
    started = stepper.start_together(parts)
    monkeypatch.setattr(started.plan, "finish", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        started()
    if caches.caches:
        with pytest.raises(ContextFull):
            stepper.start_together([*parts, StepPart([1] * caches.caches[0].n_cells, 0, [0], 2)])
    if caches.states.n_slots:
        with pytest.raises(NotSupported, match="without the recurrent state"):
            stepper.start_together([parts[1], StepPart([8], 5, [0], 0)])
    for cache, cells in zip(caches.caches, before, strict=True):
        np.testing.assert_array_equal(cache.cells, cells)
    np.testing.assert_array_equal(caches.states.bits, states)
