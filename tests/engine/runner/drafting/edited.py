"""Measures how much faster n-gram lookup writes a text again with changes:

    python -m tests.engine.runner.drafting.edited FILE [DEVICE]

FILE is one that counts, as `weights.py` makes them ("8b-counts"). The prompt is the text that the
answer writes, except that one token in so many is another one.
"""

import sys
from statistics import median
from time import perf_counter

from engine.protocol import Finished, Speculation
from engine.runner.api import Model, load
from engine.runner.drafting.economy import Economy
from tests.engine.runner.answering.many import Many, asked

TOKENS, ROUNDS, FIRST, OTHER = 64, 5, 1000, 50_000
CHANGED = (10, 20, 50)
"""One token in so many is changed."""


def written(model: Model, every: int, kind: str, economy: Economy) -> tuple[float, Finished]:
    """Return the seconds of a token of the text that is written again, and the end. Raises
    `AssertionError` if it is another text.
    """
    text = list(range(FIRST, FIRST + TOKENS + 32))
    before = [token + OTHER if at % every == every - 1 else token for at, token in enumerate(text)]
    many = Many(model, economy=economy)
    many.ask(asked(1, [*before, FIRST - 1], TOKENS, speculation=Speculation(kind)))
    while not many.tokens(1):
        many.turn()  # the prompt
    left, began = TOKENS - len(many.tokens(1)), perf_counter()
    many.finish()
    seconds, end = (perf_counter() - began) / left, many.end(1)
    assert many.tokens(1) == text[:TOKENS]
    assert isinstance(end, Finished)
    return seconds, end


def main(path: str, device: str | None = None) -> None:
    with load(path, device=device, ctx=1024, cells=0, spec_type="ngram") as model:
        economy = Economy()  # one for all, as a program has
        for every in CHANGED:
            gains = []
            for n in range(ROUNDS + 1):
                plain, _ = written(model, every, "none", economy)
                ours, end = written(model, every, "ngram", economy)
                if n:  # the first makes plans
                    gains.append(plain / ours)
            print(
                f"one token in {every} changed: {median(gains):.2f} times"
                f" ({min(gains):.2f} to {max(gains):.2f}), {1000 * ours:.1f} ms a token,"
                f" {end.stats.n_accepted} of {end.stats.n_drafted} drafts right",
                flush=True,
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
