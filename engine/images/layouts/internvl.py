"""InternVL: stretched to the grid of tiles of the nearest aspect, overview last."""

from engine.images.layouts.assemble import joined, largest, rows_of
from engine.images.plan import ImagePlan, Limits, Size, Text, View
from engine.images.tiles import closest_aspect, cut


def internvl(
    size: Size,
    limits: Limits,
    *,
    edge: int,
    most: int,
    cell: int,
    before: str = "<img>",
    after: str = "</img>",
) -> ImagePlan:
    """Up to `most` tiles of `edge`; a row for each `cell`: patch size x merge."""
    tile, grid = Size(edge, edge), Size(edge // cell, edge // cell)

    def plan(most: int) -> ImagePlan:
        rows, cols = arrangement = closest_aspect(size, edge, most)
        views = cut(size, (Size(cols * edge, rows * edge),), tile, arrangement, grid)
        if len(views) > 1:
            overview = View(original=size, steps=(tile,), size=tile, grid=grid, role="overview")
            views += (overview,)
        rows_in_order = (rows_of(views, index) for index in range(len(views)))
        return ImagePlan(views, joined((Text(before), *rows_in_order, Text(after))))

    return largest(plan, range(1 if limits.one_view else most, 0, -1), limits)
