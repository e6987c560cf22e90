"""Sixteen at once on the real models: greedy answers are those that each gives alone, or part at a
near tie, counted.
"""

from pathlib import Path

import numpy as np
import pytest

from engine.protocol import Finished, Generate
from engine.runner.api import Model, load
from tests.engine.runner.answering.many import GREEDY, Many

N, LENGTH, CTX = 16, 48, 512
TIE = 0.1
"""Nats between two tokens that are nearly as likely: kernels for other sizes of steps add up in
another order."""

SUBJECTS = (
    *("rivers", "the moon", "bread", "a clock", "whales", "chess", "iron", "snow"),
    *("Lisbon", "violins", "salt", "maps", "bees", "glass", "tea", "tides"),
)
SYSTEM = "You are a patient teacher who explains everything with one example from daily life. "


LONG = 600
"""Tokens and more: beyond Gemma's window of 512, and with what is written beyond LONG_CTX."""
LONG_CTX = 800


def requests(shared: bool, long: bool) -> list[Generate]:
    """Of different lengths; with a beginning that all share, or none."""
    texts = [f"{'Please. ' * (i % 5)}Tell me about {s}." for i, s in enumerate(SUBJECTS)]
    begin = SYSTEM * 3 if shared else ""
    if long:
        begin = SYSTEM * (LONG // 16) if shared else ""
        texts = [
            text if shared else f"I like {s}. " * (LONG // 4) + text
            for text, s in zip(texts, SUBJECTS, strict=True)
        ]
    return [
        Generate(i, prompt=begin + text, sampling=GREEDY, max_tokens=LENGTH, endless=True)
        for i, text in enumerate(texts, 1)
    ]


@pytest.mark.full
@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", ["smollm2", "gemma3"])
def test_sixteen_at_once_on_a_real_model(
    name: str, shared: bool, long: bool, request: pytest.FixtureRequest
) -> None:
    """The long ones are beyond Gemma's windows, and where nothing is shared some contexts shift."""
    path: Path = request.getfixturevalue(f"{name}_path")
    with load(
        path, ctx=CTX if not long else 1024 if shared else LONG_CTX, parallel=N, cells=0
    ) as model:
        asked = requests(shared, long)
        expected = {}
        for one in asked:
            many = Many(model)
            many.ask(one)
            many.finish()
            expected[one.id] = many.tokens(one.id)
        many = Many(model)
        for i, one in enumerate(asked):
            many.ask(one)
            if i % 4 == 3:
                many.turn()
        many.cancelled.add(16)
        many.finish()
        ends = [many.end(i) for i in expected if i != 16]
        lengths = [end.stats.n_prompt for end in ends if isinstance(end, Finished)]
        shifted = [end.id for end in ends if isinstance(end, Finished) and end.stats.n_shifts]
        assert not long or min(lengths) > 512
        assert bool(shifted) == (long and not shared)
        parted = [i for i in expected if i != 16 and many.tokens(i) != expected[i]]
        for number in parted:
            if number not in shifted:  # whose context is no longer its prompt and what it said
                prompt = model.loaded.tokenizer.encode(asked[number - 1].prompt or "")
                _check_tie(model, prompt, expected[number], many.tokens(number))
        what = f"{name}, shared {shared}, long {long}"
        print(f"{what}: {len(parted)} of {N - 1} part at a near tie, {len(shifted)} shifted")
        assert len(parted) <= N // 2
        said = many.tokens(16)
        assert said == expected[16][: len(said)]


def _check_tie(model: Model, prompt: list[int], alone: list[int], together: list[int]) -> None:
    """Where they part, the two tokens are nearly as likely."""
    at = next(i for i, (a, b) in enumerate(zip(alone, together, strict=True)) if a != b)
    model.loaded.built.caches.clear()
    *_, (_, rows) = model.logits([*prompt, *alone[:at]])
    row = rows[-1].astype(np.float64)
    assert abs(row[alone[at]] - row[together[at]]) < TIE
    assert min(row[alone[at]], row[together[at]]) > np.sort(row)[-3] - TIE
