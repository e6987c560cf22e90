"""Plan of a picture before anything runs: views for the vision encoder, pieces of the prompt.

All of it follows from the picture's size; no pixels and no tensors. Sizes are width x height, in
pixels unless something else is said.
"""

from typing import Literal, NamedTuple

import msgspec


class Size(NamedTuple):
    """Width and height."""

    w: int
    h: int

    def __str__(self) -> str:
        return f"{self.w}x{self.h}"


class Box(NamedTuple):
    """A rectangle from (left, top) to (right, bottom), which it ends before."""

    left: float
    top: float
    right: float
    bottom: float


def _inside(value: float, most: int) -> float:
    return min(max(value, 0.0), float(most))


class Limits(msgspec.Struct, frozen=True):
    """Limits on a picture, from the user or from the context.

    `rows` is the most rows of embeddings (None: the model's own number); a family that cannot make
    fewer ignores it. `one_view` asks families with tiles for the whole picture alone.
    """

    rows: int | None = None
    one_view: bool = False


Role = Literal["whole", "tile", "overview"]


class View(msgspec.Struct, frozen=True):
    """One picture that the tower sees.

    The original, with a `margin` of padding (left, top, right, bottom) in its own pixels, is
    resized to each of `steps` in turn. The last result lies on the view with its upper left corner
    at `offset`, which is negative for tiles that begin further right or down; what it does not
    cover is padding too.

    Rows come out in raster order of `grid`, after `extras` rows that stand for no place of their
    own: a class row, the queries of a resampler. `row` and `col` count tiles.
    """

    original: Size
    steps: tuple[Size, ...]
    size: Size
    grid: Size
    offset: tuple[int, int] = (0, 0)
    margin: tuple[int, int, int, int] = (0, 0, 0, 0)
    role: Role = "whole"
    row: int = 0
    col: int = 0
    extras: int = 0

    @property
    def rows(self) -> int:
        """How many rows of embeddings the tower makes of it."""
        return self.extras + self.grid.w * self.grid.h

    @property
    def _scale(self) -> tuple[float, float]:
        """Pixels of the view per pixel of the original."""
        left, top, right, bottom = self.margin
        resized, w, h = self.steps[-1], *self.original
        return resized.w / (left + w + right), resized.h / (top + h + bottom)

    @property
    def content(self) -> Box:
        """Where in the view the picture is; the rest is padding."""
        (sx, sy), (x, y), (left, top) = self._scale, self.offset, self.margin[:2]

        return Box(
            _inside(x + left * sx, self.size.w),
            _inside(y + top * sy, self.size.h),
            _inside(x + (left + self.original.w) * sx, self.size.w),
            _inside(y + (top + self.original.h) * sy, self.size.h),
        )

    @property
    def source(self) -> Box:
        """The rectangle of the original that it shows."""
        (sx, sy), (x, y), (left, top) = self._scale, self.offset, self.margin[:2]
        shown, original = self.content, self.original
        return Box(
            _inside((shown.left - x) / sx - left, original.w),
            _inside((shown.top - y) / sy - top, original.h),
            _inside((shown.right - x) / sx - left, original.w),
            _inside((shown.bottom - y) / sy - top, original.h),
        )


class Piece(msgspec.Struct, frozen=True, tag=True):
    """One part of what stands for a picture in the prompt."""


class Text(Piece, frozen=True):
    """Joined with the text around it before that becomes tokens."""

    text: str


class Rows(Piece, frozen=True):
    """`count` rows of a view, from row `first` on; `view` is its index in the plan."""

    view: int
    first: int
    count: int


class Learned(Piece, frozen=True):
    """One row that is a weight of the projector, by name: `image_newline`."""

    name: str


class ImagePlan(msgspec.Struct, frozen=True):
    """Everything about one picture that its size decides.

    `cross`: rows go to the cross-attention cache, and the pieces hold text only. `causal` False:
    the rows see one another, so a batch holds all of them. `advance`: how many places the picture
    takes where places have several axes (M-RoPE); None: as many as it has rows. `counted` stands
    before the pieces, with the picture's number in the chat, from 0, for "{}".
    """

    views: tuple[View, ...]
    pieces: tuple[Text | Rows | Learned, ...]
    cross: bool = False
    causal: bool = True
    advance: int | None = None
    counted: str = ""
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Rows of embeddings in the prompt, learned ones included; of all views where `cross`."""
        if self.cross:
            return sum(view.rows for view in self.views)
        return sum(
            piece.count if isinstance(piece, Rows) else 1
            for piece in self.pieces
            if not isinstance(piece, Text)
        )
