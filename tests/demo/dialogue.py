"""Chats about pictures as token ids: what the network sees while it learns to speak.

One row of training is one picture, or two, with several questions. They are put either as turns of
one chat or each by itself: then no question sees another, though the picture stands there once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from tests.demo.questions import FOLLOWED, KINDS, Question, ask, reworded
from tests.demo.scenes import Scene
from tests.demo.talk import NO_PICTURE, SMALL_TALK
from tests.demo.vocabulary import IMAGE, IMAGE_END, IMAGE_ROW, TURN, TURN_END

# How often each kind is asked: what is hard to learn more often.
_WEIGHTS = {
    "colour": 0.5,
    "form": 0.4,
    "size": 0.4,
    "place": 1.5,
    "count": 1.2,
    "exists": 0.6,
    "larger": 1.0,
    "beside": 2.0,
    "describe": 1.0,
}

Encode = Callable[[str], list[int]]


@dataclass
class Row:
    """Token ids with, for each, its position, its group (which sees group 0 and itself), its image.

    `image` is the number of the picture whose row a token is, from 1, or 0. `answers` holds, for
    each question, its kind and the ids' range, up to and with the end of the turn.
    """

    ids: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    images: list[int] = field(default_factory=list)
    answers: list[tuple[str, int, int]] = field(default_factory=list)

    def add(self, ids: Sequence[int], group: int = 0, image: int = 0) -> None:
        """Append tokens that follow the last one of their group, or of group 0."""
        seen = [p for p, g in zip(self.positions, self.groups, strict=True) if g in (0, group)]
        first = max(seen, default=-1) + 1
        self.ids += ids
        self.positions += range(first, first + len(ids))
        self.groups += [group] * len(ids)
        self.images += [image] * len(ids)


class Dialogues:
    """Makes rows; `encode` gives the ids of a text with the marks of turns and pictures in it."""

    def __init__(self, encode: Encode, begin: int, rows: int, random: Random) -> None:
        self._encode, self._begin, self._rows, self._random = encode, begin, rows, random

    def alone(self, scene: Scene, questions: int) -> Row:
        """Questions that do not see one another."""
        row = self._opened()
        self._picture(row, 1)
        for group, question in enumerate(_some(scene, questions, self._random), 1):
            text = reworded(question.text, self._random)
            row.add(self._encode(f"{text}{TURN_END}\n{TURN}model\n"), group)
            self._answer(row, question, group)
        return row

    def chat(self, scenes: Sequence[Scene], questions: int) -> Row:
        """Questions one after the other, about the last of the pictures shown so far."""
        row, random = self._opened(), self._random
        if random.random() < 0.15:
            self._turns(row, [Question("talk", *random.choice(SMALL_TALK))])
        if random.random() < 0.1:
            kind = random.choice(tuple(_WEIGHTS))
            question = ask(scenes[0], kind, random)
            text = question.text if question else "Hello"
            self._turns(row, [Question("talk", text, NO_PICTURE if question else SMALL_TALK[0][1])])
        for number, scene in enumerate(scenes, 1):
            self._turns(row, list(_some(scene, questions, random)), number)
        return row

    def _opened(self) -> Row:
        row = Row()
        row.add([self._begin, *self._encode(f"{TURN}user\n")])
        return row

    def _turns(self, row: Row, questions: Sequence[Question], image: int = 0) -> None:
        before = None
        for i, question in enumerate(questions):
            if row.answers:
                row.add(self._encode(f"\n{TURN}user\n"))
            if before and question.kind in FOLLOWED and before.kind == question.kind:
                question = question.following()
            text = reworded(question.text, self._random)
            if image and i == 0 and question.kind == "describe" and self._random.random() < 0.3:
                text = ""  # a picture that comes without a word is to be described
            last = image and i == 0 and self._random.random() < 0.2
            if last:
                row.add(self._encode(text))
            if image and i == 0:
                self._picture(row, image)
            row.add(self._encode(("" if last else text) + f"{TURN_END}\n{TURN}model\n"))
            self._answer(row, question, 0)
            before = question

    def _picture(self, row: Row, number: int) -> None:
        row.add(self._encode(f"\n\n{IMAGE}"))
        row.add(self._encode(IMAGE_ROW) * self._rows, image=number)
        row.add(self._encode(f"{IMAGE_END}\n\n"))

    def _answer(self, row: Row, question: Question, group: int) -> None:
        first = len(row.ids)
        row.add(self._encode(question.answer + TURN_END), group)
        row.answers.append((question.kind, first, len(row.ids)))


def _some(scene: Scene, count: int, random: Random) -> Iterator[Question]:
    """Questions of random kinds, now and then two of one kind in a row."""
    kind = ""
    while count:
        if kind not in FOLLOWED or random.random() < 0.6:
            (kind,) = random.choices(tuple(_WEIGHTS), tuple(_WEIGHTS.values()))
        question = ask(scene, kind, random)
        if question is not None:
            count -= 1
            yield question


assert set(_WEIGHTS) == set(KINDS)
