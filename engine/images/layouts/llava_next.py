"""LLaVA 1.6: overview first, then tiles of the best of a few canvases, rows of padding left out."""

from collections.abc import Iterator, Sequence

from engine.images.layouts.assemble import largest, rows_of
from engine.images.plan import ImagePlan, Learned, Limits, Role, Rows, Size, View
from engine.images.tiles import cut, fit_up, pinpoint, unpadded


def llava_next(
    size: Size,
    limits: Limits,
    *,
    edge: int,
    patch: int,
    canvases: Sequence[Size],
    newline: str = "image_newline",
) -> ImagePlan:
    """`canvases` are the file's pinpoints, multiples of `edge`; a `newline` ends each grid row."""
    tile, side = Size(edge, edge), edge // patch
    grid = Size(side, side)

    def plan(most: int) -> ImagePlan:
        fitting = [c for c in canvases if c.w * c.h <= most * edge * edge]
        role: Role = "overview" if fitting else "whole"
        views: tuple[View, ...] = (
            View(original=size, steps=(tile,), size=tile, grid=grid, role=role),
        )
        pieces: list[Rows | Learned] = [rows_of(views, 0)]
        if not fitting:
            return ImagePlan(views, (*pieces, Learned(newline)))
        canvas = pinpoint(size, fitting)
        resized = fit_up(size, canvas)
        at = ((canvas.w - resized.w) // 2, (canvas.h - resized.h) // 2)
        rows, cols = canvas.h // edge, canvas.w // edge
        views += cut(size, (resized,), tile, (rows, cols), grid, at)
        whole = Size(cols * side, rows * side)
        ys, xs = unpadded(size, whole)
        for y in ys:
            pieces += _line(y, xs, side, cols)
            pieces.append(Learned(newline))
        return ImagePlan(views, tuple(pieces))

    tiles = [c.w * c.h // (edge * edge) for c in canvases]
    return largest(plan, range(0 if limits.one_view else max(tiles), -1, -1), limits)


def _line(y: int, xs: range, side: int, cols: int) -> Iterator[Rows]:
    """One row of the canvas's grid, from the tiles that it goes through; view 0 is the overview."""
    for col in range(cols):
        first, end = max(xs.start, col * side), min(xs.stop, (col + 1) * side)
        if first < end:
            start = y % side * side + first - col * side
            yield Rows(1 + y // side * cols + col, start, end - first)
