"""How well a model answers at its own sampling: python -m tests.answers [--questions N]

SmolLM2's suggested questions with 25 seeds each, and many questions with the bounds of `run -p`.
"""

import argparse
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random

from msgspec import structs

from app.commands.run import MOST_TOKENS
from app.defaults import suggested_sampling
from app.library import resolve
from engine.protocol import ChatMessage, Finished, Generate, Piece
from engine.runner import load
from engine.runner.api import Model
from engine.runner.generate import generate

SEEDS = range(1, 26)
RIGHT = {
    "What is the capital of France?": "Paris",
    "Who was the first person to walk on the Moon?": "Armstrong",
    "What is the largest ocean on Earth?": "Pacific",
    "Explain gravity in one sentence.": "force|attract",
}
FORMS = (
    "What is {}?",
    "Explain {} to a child.",
    "Write a short story about {}.",
    "Give me five facts about {}.",
    "Write a poem about {}.",
    "Make a table about {} with three columns.",
    "List ten words that have to do with {}.",
    "How does one learn about {}?",
)
THINGS = (
    *("water", "the Moon", "bread", "music", "ants", "trains", "chess", "Japan", "rain", "glass"),
    *("whales", "money", "bridges", "coffee", "sleep", "volcanoes", "paper", "football", "bees"),
    *("Rome", "robots", "mountains", "salt", "clocks", "Python", "snow", "democracy"),
)


def questions(count: int) -> list[str]:
    """So many different ones, always the same."""
    every = [form.format(thing) for form, thing in product(FORMS, THINGS)]
    return Random(1).sample(every, count)


class Asked:
    """A model with the sampling that suits its file."""

    def __init__(self, model: Model, path: Path) -> None:
        self._model, self._sampling = model, suggested_sampling(path)

    def answer(self, question: str, seed: int) -> tuple[str, list[int], Finished]:
        """The text, its tokens and how it ended."""
        request = Generate(
            1,
            messages=[ChatMessage("user", question)],
            sampling=structs.replace(self._sampling, seed=seed),
            max_tokens=MOST_TOKENS,
            when_full="stop",
            stop_loops=True,
        )
        text, tokens = "", []
        replies = generate(self._model.loaded, self._model.conversation, request, lambda: False)
        for reply in replies:
            if isinstance(reply, Piece):
                text += reply.text
                tokens += [info.token for info in reply.tokens]
            elif isinstance(reply, Finished):
                return text, tokens, reply
        raise AssertionError("an answer ends with Finished")


def right_answers(asked: Asked, question: str) -> tuple[int, int]:
    """The seeds of SEEDS that answer rightly, and the most tokens of an answer."""
    answers = [asked.answer(question, seed) for seed in SEEDS]
    right = sum(bool(re.search(RIGHT[question], text)) for text, _, _ in answers)
    return right, max(len(tokens) for _, tokens, _ in answers)


def repeated(tokens: list[int]) -> int:
    """The most tokens at any place that repeat, with a period of at most 64, what stands before."""
    most = 0
    for period in range(1, 65):
        run = 0
        for i in range(period, len(tokens)):
            run = run + 1 if tokens[i] == tokens[i - period] else 0
            most = max(most, run)
    return most


def ended(asked: Asked, count: int) -> Iterator[tuple[str, str, int, int]]:
    """(question, reason, tokens, tokens that repeat) of so many questions."""
    for seed, question in enumerate(questions(count), 1):
        _, tokens, end = asked.answer(question, seed)
        yield question, end.reason, len(tokens), repeated(tokens)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=200)
    options = parser.parse_args()
    path = resolve("smollm2-135m")
    with load(path, ctx=4096) as model:
        asked = Asked(model, path)
        for question in RIGHT:
            right, longest = right_answers(asked, question)
            print(f"{right} of {len(SEEDS)}, at most {longest} tokens: {question}", flush=True)
        reasons: dict[str, int] = {}
        most = 0
        for question, reason, n, again in ended(asked, options.questions):
            reasons[reason] = reasons.get(reason, 0) + 1
            most = max(most, again)
            if reason != "stop" or again > 128:
                print(f"{reason}, {n} tokens, {again} repeated: {question}", flush=True)
        print(f"{reasons}, at most {most} tokens repeated")


if __name__ == "__main__":
    main()
