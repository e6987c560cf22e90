"""Tiles of a canvas in whose corner the picture lies: Llama 3.2 Vision (mllama), Llama 4."""

import numpy as np

from engine.images.layouts.assemble import joined, largest, rows_of
from engine.images.plan import ImagePlan, Learned, Limits, Rows, Size, Text, View
from engine.images.tiles import cut, on_canvas, roomiest


def mllama(
    size: Size, limits: Limits, *, edge: int, most: int, patch: int, marker: str = "<|image|>"
) -> ImagePlan:
    """Up to `most` tiles. Their rows, a class row first, go to the cross-attention cache."""
    arrangement = roomiest(size, edge, 1 if limits.one_view else most)
    views = cut(
        original=size,
        steps=(on_canvas(size, edge, arrangement),),
        tile=Size(edge, edge),
        arrangement=arrangement,
        grid=Size(edge // patch, edge // patch),
        extras=1,
    )
    return ImagePlan(views, (Text(marker),), cross=True)


def llama4(
    size: Size,
    limits: Limits,
    *,
    edge: int,
    most: int,
    cell: int,
    start: str = "<|image_start|>",
    between: str = "<|tile_x_separator|>",
    line_end: str = "<|tile_y_separator|>",
    overview: str = "<|image|>",
    end: str = "<|image_end|>",
) -> ImagePlan:
    """Up to `most` tiles, and the whole picture in one more if there are several."""
    tile = Size(edge, edge)
    grid = Size(edge // cell, edge // cell)

    def plan(most: int) -> ImagePlan:
        rows, cols = arrangement = roomiest(size, edge, most, np.float32)
        views = cut(size, (on_canvas(size, edge, arrangement),), tile, arrangement, grid)
        pieces: list[Text | Rows | Learned] = [Text(start)]
        if len(views) > 1:
            for index in range(len(views)):
                last = index % cols == cols - 1
                pieces += [rows_of(views, index), Text(line_end if last else between)]
            views += (View(original=size, steps=(tile,), size=tile, grid=grid, role="overview"),)
        pieces += [Text(overview), rows_of(views, len(views) - 1), Text(end)]
        return ImagePlan(views, joined(pieces))

    return largest(plan, range(1 if limits.one_view else most, 0, -1), limits)
