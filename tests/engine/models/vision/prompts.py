"""A golden's prompt as a stepper takes it: tokens, rows of pictures, places and ends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from engine.runner.api import Model
from engine.runner.stepper import Extras
from tests.goldens.vision.store import Case

TOGETHER = ("gemma3", "gemma4", "gemma4u")
"""Families whose rows of one picture all see each other."""

CELLS = {
    "qwen2vl": 14,
    "qwen25vl": 28,
    "qwen3vl": 16,
    "qwen35": 16,
    "glm4v": 14,
    "glm4vmoe": 14,
    "glmocr": 14,
    "paddleocr": 14,
}
"""Families with places of several axes, and the pixels that a row stands for."""


@dataclass(frozen=True)
class Prompt:
    """`tokens` i32 [T], -1 at rows; `rows` f32 [T, E * planes], zero at tokens; `places` i32
    [4, T] where the family has several axes; `ends` i32 [T] where rows see each other.
    """

    tokens: np.ndarray
    rows: np.ndarray
    places: np.ndarray | None
    ends: np.ndarray | None

    def part(self, start: int, end: int) -> tuple[list[int], Extras]:
        """A piece of it; one without a picture is nothing but tokens (and places)."""
        rows = self.rows[start:end]
        places = None if self.places is None else self.places[:, start:end]
        ends = None if self.ends is None else self.ends[start:end]
        has_rows = bool((self.tokens[start:end] < 0).any())
        extras = Extras(rows if has_rows else None, places, ends)
        return self.tokens[start:end].tolist(), extras

    def followed(self, tokens: np.ndarray) -> Prompt:
        """It, and an answer behind it."""
        n = len(tokens)
        places, ends = self.places, self.ends
        if places is not None:
            first = int(places.max()) + 1
            further = np.tile(np.arange(first, first + n, dtype=np.int32), (4, 1))
            places = np.concatenate([places, further], axis=1)
        if ends is not None:
            further = np.arange(len(ends), len(ends) + n, dtype=np.int32)
            ends = np.concatenate([ends, further])
        rows = np.pad(self.rows, ((0, n), (0, 0)))
        return Prompt(np.concatenate([self.tokens, tokens]), rows, places, ends)


def prompt_of(family: str, case: Case) -> Prompt:
    """The prompt with the golden's own rows, so that a tower's errors are not in its logits."""
    rows = np.concatenate([seen.rows for seen in case.seen])
    placed = np.zeros((len(case.ids), rows.shape[1]), np.float32)
    placed[case.ids < 0] = rows
    places = _places(case, CELLS[family]) if family in CELLS else None
    if family == "hunyuanvl":
        places = _numbered_places(case, 14)
    ends = _ends(case.ids) if family in TOGETHER else None
    return Prompt(case.ids, placed, places, ends)


def seeing(model: Model, planes: int) -> Model:
    """The model, whose steps take that many rows for each place."""
    stepper = model.loaded.stepper
    model.loaded.room.stepper = replace(stepper, built=replace(stepper.built, planes=planes))
    return model


def _ends(ids: np.ndarray) -> np.ndarray:
    ends = np.arange(len(ids), dtype=np.int32)
    for is_row, group in groupby(range(len(ids)), lambda i: bool(ids[i] < 0)):
        members = list(group)
        if is_row:
            ends[members] = members[-1]
    return ends


def _places(case: Case, cell: int) -> np.ndarray:
    """Text counts on; a picture stands at one time and spreads over height and width, and what
    follows goes on behind the larger of these.
    """
    grids = iter([(s.picture.shape[0] // cell, s.picture.shape[1] // cell) for s in case.seen])
    places = np.zeros((4, len(case.ids)), np.int32)
    now, i = 0, 0
    while i < len(case.ids):
        if case.ids[i] >= 0:
            places[:, i] = now
            now, i = now + 1, i + 1
            continue
        height, width = next(grids)
        y, x = np.divmod(np.arange(height * width), width)
        still = np.full(height * width, now)
        places[:, i : i + height * width] = np.stack([still, now + y, now + x, still])
        now, i = now + max(height, width), i + height * width
    return places


def _numbered_places(case: Case, cell: int) -> np.ndarray:
    """All tokens and rows count on; between a picture's first and last row the other axes are
    column, the line's end included, row, and the picture's number.
    """
    places = np.tile(np.arange(len(case.ids), dtype=np.int32), (4, 1))
    begins = np.flatnonzero((case.ids < 0) & (np.roll(case.ids, 1) >= 0))
    for number, (begin, seen) in enumerate(zip(begins, case.seen, strict=True)):
        height, width = seen.picture.shape[0] // cell, seen.picture.shape[1] // cell
        at = begin + 1
        for y in range(height):
            for x in range(width + 1):
                places[1:, at] = x, y, number
                at += 1
    return places
