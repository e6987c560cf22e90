"""Items of a sequence: tokens, rows of pictures at their positions, and a prompt for an encoder.

Two items are the same when a cache that holds one holds the other. A picture whose rows all see
each other is one group: no step and no prefix ends inside.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.images.plan import ImagePlan, Limits, Rows, Size, Text
from engine.models.vision.base import Places, Tower, TowerParams, TowerWeights

Ints = NDArray[np.int32]


@dataclass(frozen=True)
class Shown:
    """A picture as the open model sees it: which pixels, and by which plan.

    `before` and `after` are the tokens that begin and end it in a prompt. Where layers look at it
    from one `token` on (`plan.cross`), that is its only row here.
    """

    digest: str
    limits: Limits
    size: Size = field(compare=False)
    plan: ImagePlan = field(compare=False)
    before: tuple[int, ...] = field(compare=False, default=())
    after: tuple[int, ...] = field(compare=False, default=())
    token: int = field(compare=False, default=-1)

    @property
    def n_rows(self) -> int:
        """Rows in the prompt."""
        return 1 if self.plan.cross else self.plan.rows

    @cached_property
    def starts(self) -> list[int]:
        """Where the rows of each view begin, one after the other; then how many there are."""
        return list(accumulate((view.rows for view in self.plan.views), initial=0))

    @cached_property
    def sources(self) -> list[int | str]:
        """For each row in the prompt: its number among the rows of all views, or the name of one
        that the projector has learned.
        """
        found: list[int | str] = []
        for piece in self.plan.pieces:
            if isinstance(piece, Rows):
                first = self.starts[piece.view] + piece.first
                found += range(first, first + piece.count)
            elif not isinstance(piece, Text):
                found.append(piece.name)
        return found


class PictureRow(NamedTuple):
    """One row of a picture, in the order of the prompt."""

    picture: Shown
    row: int


class EncodedText(NamedTuple):
    """The decoder's first `token`, and the `text` that an encoder reads for all of its tokens."""

    token: int
    text: tuple[int, ...]


Item = int | PictureRow | EncodedText


def tokens_of(items: Sequence[Item]) -> list[int]:
    """The ids, -1 where a row stands."""
    return [_token(item) for item in items]


def _token(item: Item) -> int:
    match item:
        case PictureRow(picture=picture):
            return picture.token
        case EncodedText(token=token):
            return token
    return item


def n_read(item: Item) -> int:
    """How many tokens of a prompt an item stands for."""
    return len(item.text) if isinstance(item, EncodedText) else 1


class RowRun(NamedTuple):
    """Rows of one picture that follow each other: items from `begin` up to `end`."""

    picture: Shown
    begin: int
    end: int
    first: int
    """The number of the first of them among the picture's."""

    @property
    def is_last(self) -> bool:
        """True if the picture ends with it."""
        return self.first + self.end - self.begin == self.picture.n_rows


def runs(items: Sequence[Item]) -> Iterator[RowRun]:
    """The pictures' rows in order."""
    begin = 0
    for i, item in enumerate(items):
        if not isinstance(item, PictureRow):
            continue
        if not (i and _continues(items[i - 1], item)):
            begin = i
        if i + 1 == len(items) or not _continues(item, items[i + 1]):
            first = items[begin]
            assert isinstance(first, PictureRow)
            yield RowRun(item.picture, begin, i + 1, first.row)


def _continues(before: Item, item: Item) -> bool:
    if not (isinstance(before, PictureRow) and isinstance(item, PictureRow)):
        return False
    return before.picture == item.picture and item.row == before.row + 1


def before_group(items: Sequence[Item], n: int) -> int:
    """The most items up to `n` that end in no group whose rows see each other."""
    while 0 < n < len(items) and _continues(items[n - 1], items[n]):
        item = items[n]
        if not isinstance(item, PictureRow) or item.picture.plan.causal:
            break
        n -= 1
    return n


def before_looking(items: Sequence[Item], begin: int, end: int) -> int:
    """The most items from `begin` up to `end` of which all look at the same pictures, where layers
    look at them.
    """
    for run in runs(items[begin:end]):
        at = begin + run.begin
        if run.picture.plan.cross and at > begin and isinstance(items[at - 1], int):
            return at
    return end


def rows_looked_at(items: Sequence[Item]) -> int:
    """Rows of the pictures among items that layers look at."""
    return sum(run.picture.plan.rows for run in runs(items) if run.picture.plan.cross)


class Extent(NamedTuple):
    """All that stands for one picture: items from `begin` up to `end`, its markers included."""

    picture: Shown
    begin: int
    end: int


def extents(items: Sequence[Item]) -> list[Extent]:
    """Every picture that is there to its last row, in order."""
    found, begin = [], 0
    for run in runs(items):
        picture = run.picture
        if run.first == 0:
            begin = run.begin
        if run.is_last:
            before, after = picture.before, picture.after
            start = begin - len(before)
            if start < 0 or tuple(items[start:begin]) != before:
                start = begin
            behind = run.end + len(after)
            end = behind if tuple(items[run.end : behind]) == after else run.end
            found.append(Extent(picture, start, end))
    return found


def whole(items: Sequence[Item], keep: int, begin: int, count: int) -> tuple[int, int]:
    """The range of at least `count` items from about `begin` on that leaves no picture in part, and
    the first `keep` items alone.
    """
    pictures = extents(items)
    end = begin + count
    for extent in pictures:
        if extent.begin < begin < extent.end:
            begin = extent.begin if extent.begin >= keep else extent.end
    end = max(end, begin + count)
    for extent in pictures:
        if extent.begin < end < extent.end:
            end = extent.end
    return begin, min(end, len(items))


def ends(items: Sequence[Item], position: int) -> Ints | None:
    """The last position that each item sees where that may be a later one's; None: its own.

    `items` begin at `position` and hold each group as a whole.
    """
    found: Ints | None = None
    for run in runs(items):
        if not run.picture.plan.causal:
            if found is None:
                found = np.arange(position, position + len(items), dtype=np.int32)
            found[run.begin : run.end] = position + run.end - 1
    return found


def saved(items: Sequence[Item]) -> int:
    """By how many the places of what follows are fewer than the items: pictures with several axes
    take as many places as their longer side.
    """
    return sum(
        run.picture.n_rows - run.picture.plan.advance
        for run in runs(items)
        if run.is_last and run.picture.plan.advance is not None
    )


def places(
    tower: Tower[TowerParams, TowerWeights], before: Sequence[Item], items: Sequence[Item]
) -> Places:
    """i32 [4, T]: what keys and queries of `items`, which follow `before`, turn by."""
    start = len(before) - saved(before)
    found = np.tile(np.arange(start, start + len(items), dtype=np.int32), (4, 1))
    shown = list(runs(items))
    number = sum(run.is_last for run in runs(before)) if shown else 0
    for run in shown:
        begun = int(found[0, run.begin]) - run.first
        rows = tower.places(run.picture.plan, begun, number)
        number += run.is_last
        found[:, run.begin : run.end] = rows[:, run.first : run.first + run.end - run.begin]
        if run.is_last and run.picture.plan.advance is not None:
            found[:, run.end :] -= run.picture.n_rows - run.picture.plan.advance
    return found
