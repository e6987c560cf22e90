"""The exam: pictures that training never drew, one question about each, always the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from PIL import Image

from tests.demo.questions import KINDS, Question, ask
from tests.demo.scenes import draw, random_scene

PICTURES = 200
# Training counts its seeds from 1.
_SEED = 20_261_122


@dataclass(frozen=True)
class Task:
    """A picture with its question."""

    picture: Image.Image
    question: Question


def exam(pictures: int = PICTURES, seed: int = _SEED) -> list[Task]:
    """So many tasks; the kinds of questions take turns."""
    random, kinds = Random(seed), tuple(KINDS)
    return [_task(kinds[i % len(kinds)], random) for i in range(pictures)]


def _task(kind: str, random: Random) -> Task:
    scene, question = next(_asked(kind, random))
    return Task(draw(scene, random), question)


def _asked(kind: str, random: Random) -> Iterator[tuple]:
    while True:
        scene = random_scene(random)
        question = ask(scene, kind, random)
        if question is not None:
            yield scene, question
