"""On CPUs a row of a step gives the same bits alone and among others, as drafts ask for."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.backends.opencl.drivers.device import list_devices
from engine.runner.api import Model, load
from engine.runner.stepper import StepPart
from tests.engine.runner.answering.many import ids, tiny

NAMES = (
    *("llama", "gemma3", "qwen35"),
    *(
        pytest.param(name, marks=pytest.mark.full)
        for name in ("deepseek_v3", "qwen3moe", "gpt2", "bloom", "rwkv7", "rwkv6")
    ),
)
LONG, N = 160, 9
"""Tokens before those compared: a whole number of steps, past the tiny models' windows."""


@pytest.fixture(params=[d.name for d in list_devices() if d.name.endswith(":0")])
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=NAMES)
def model(request: pytest.FixtureRequest, device: str, tmp_path: Path) -> Iterator[Model]:
    with load(tiny(tmp_path, request.param), device=device, ctx=240) as model:
        yield model


def logits(model: Model, tokens: list[int], each: int) -> np.ndarray:
    """Of the last tokens, `each` of them a step."""
    stepper = model.loaded.stepper
    stepper.forget(0)
    found = []
    for size, begin, end in ((16, 0, LONG), (each, LONG, len(tokens))):
        for start in range(begin, end, size):
            part = tokens[start : min(start + size, end)]
            step = StepPart(part, start, range(len(part)))
            found.append(stepper.start_together([step])()[: len(part)].copy())
    return np.concatenate(found)[LONG:]


@pytest.mark.each_value
def test_a_row_gives_the_same_bits_alone_and_among_others(model: Model) -> None:
    tokens = ids(5, LONG + N)
    alone = logits(model, tokens, 1)
    for each in (2, 4, N):
        np.testing.assert_array_equal(logits(model, tokens, each), alone, f"{each} a step")
