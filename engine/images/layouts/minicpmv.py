"""MiniCPM-V: the whole picture, then slices of it, each of about the tower's own area."""

from engine.images.layouts.assemble import joined, largest, rows_of
from engine.images.plan import ImagePlan, Learned, Limits, Rows, Size, Text, View
from engine.images.tiles import Arrangement, cut, near_square, sliced, slices


def minicpmv(
    size: Size,
    limits: Limits,
    *,
    edge: int,
    unit: int,
    most: int,
    queries: int | None,
    before: str = "",
    start: str = "<image>",
    end: str = "</image>",
    slice_start: str = "<slice>",
    slice_end: str = "</slice>",
) -> ImagePlan:
    """Views of about `edge` squared pixels, sides in multiples of `unit`; up to `most` slices.

    `queries` rows a view, which stand for no place of their own; None: a row for each `unit`
    squared. `before` is what numbers the picture, `<image_id>0</image_id>`.
    """

    def plan(most: int) -> ImagePlan:
        arrangement = slices(size, edge, most)
        whole = near_square(size.w, size.h, edge, unit, enlarge=arrangement is None)
        grid, extras = _grid(whole, unit, queries)
        views: tuple[View, ...] = (
            View(
                original=size,
                steps=(whole,),
                size=whole,
                grid=grid,
                role="overview" if arrangement else "whole",
                extras=extras,
            ),
        )
        pieces: list[Text | Rows | Learned] = [Text(before + start), rows_of(views, 0), Text(end)]
        if arrangement is not None:
            views += _slices(size, arrangement, edge, unit, queries)
            for index in range(1, len(views)):
                pieces.append(Text("\n" if views[index].col == 0 < views[index].row else ""))
                pieces += [Text(slice_start), rows_of(views, index), Text(slice_end)]
        return ImagePlan(views, joined(pieces))

    return largest(plan, range(1 if limits.one_view else most, 0, -1), limits)


def _slices(
    size: Size, arrangement: Arrangement, edge: int, unit: int, queries: int | None
) -> tuple[View, ...]:
    resized = sliced(size, arrangement, edge, unit)
    rows, cols = arrangement
    tile = Size(resized.w // cols, resized.h // rows)
    grid, extras = _grid(tile, unit, queries)
    return cut(size, (resized,), tile, arrangement, grid, extras=extras)


def _grid(size: Size, unit: int, queries: int | None) -> tuple[Size, int]:
    """The grid of a view's rows, and how many rows stand for no cell of it."""
    if queries is not None:
        return Size(0, 0), queries
    return Size(size.w // unit, size.h // unit), 0
