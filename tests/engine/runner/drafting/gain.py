"""Measures what a model gains by its own block that predicts (mtp), from the times of its steps:

    python -m tests.engine.runner.drafting.gain FILE [DEVICE]

FILE is one whose drafts are always right, as `weights.py` makes them ("hybrid-9b-mtp"). With
chances a, b, ... that the first, second, ... draft is right, a step gives 1 + a + ab + ... tokens.
"""

import sys
from itertools import accumulate
from operator import mul
from statistics import median
from time import perf_counter

from engine.protocol import Finished, Speculation
from engine.runner.api import Model, load
from tests.engine.runner.answering.many import Fixed, Many, asked, ids
from tests.engine.runner.drafting.test_draft_model import Guessing

CHANCES = {"0.75, 0.55": (0.75, 0.55), "0.85, 0.7, 0.6": (0.85, 0.7, 0.6)}
"""Chances of real models: the first are speculation.md's for Qwen3.5 9B."""
TOKENS, ROUNDS, MOST = 24, 5, 3


def seconds_of_a_step(model: Model, n: int) -> float:
    """Return the seconds of a step that drafts and checks `n` tokens. Raises `AssertionError` if
    they are wrong.
    """
    many = Many(model, economy=Guessing(n) if n else Fixed(0))
    many.ask(asked(1, ids(3, 500)[:64], TOKENS, speculation=Speculation("mtp" if n else "none")))
    many.turn()  # the prompt
    before = perf_counter()
    many.finish()
    end = many.end(1)
    assert isinstance(end, Finished)
    seconds = perf_counter() - before
    drafted, accepted = end.stats.n_drafted, end.stats.n_accepted
    assert not n or accepted >= 0.9 * drafted > 0, (n, drafted, accepted)
    return seconds / (TOKENS - 1 - accepted)


def main(path: str, device: str | None = None) -> None:
    with load(path, device=device, ctx=512, cells=0, spec_type="mtp") as model:
        steps = [[seconds_of_a_step(model, n) for n in range(MOST + 1)] for _ in range(ROUNDS + 1)]
    times = [median(column) for column in zip(*steps[1:], strict=True)]  # the first makes plans
    for n, seconds in enumerate(times):
        print(
            f"{n} drafts: {1000 * seconds:.1f} ms a step, {seconds / times[0]:.2f} of one without"
        )
    for name, chances in CHANCES.items():
        for n in range(1, len(chances) + 1):
            tokens = 1 + sum(accumulate(chances[:n], mul))
            gain = tokens * times[0] / times[n]
            print(f"right at {name}, {n} drafts: {tokens:.2f} tokens a step, {gain:.2f} times")


if __name__ == "__main__":
    main(*sys.argv[1:])
