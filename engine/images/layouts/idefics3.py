"""Idefics 3 and SmolVLM: enlarged, stretched to a canvas of tiles, overview last."""

from engine.images.layouts.assemble import joined, largest, rows_of
from engine.images.plan import ImagePlan, Learned, Limits, Role, Rows, Size, Text, View
from engine.images.tiles import cut, to_longest, to_tiles


def idefics3(
    size: Size,
    limits: Limits,
    *,
    edge: int,
    longest: int,
    cell: int,
    fake: str = "<fake_token_around_image>",
    place: str = "<row_{row}_col_{col}>",
    overview: str = "<global-img>",
) -> ImagePlan:
    """The longer side becomes `longest`, then both stretch to tiles of `edge`.

    The overview is made from the stretched picture. A limit of rows lowers `longest`; one view is
    made from the picture at its own `longest`.
    """
    tile, grid = Size(edge, edge), Size(edge // cell, edge // cell)

    def plan(longest: int) -> ImagePlan:
        first = to_longest(size, longest)
        canvas = to_tiles(first, edge)
        rows, cols = canvas.h // edge, canvas.w // edge
        if limits.one_view or rows * cols == 1:
            steps: tuple[Size, ...] = (first, tile)
            views: tuple[View, ...] = ()
        else:
            steps = (first, canvas, tile)
            views = cut(size, (first, canvas), tile, (rows, cols), grid)
        pieces: list[Text | Rows | Learned] = []
        for index, view in enumerate(views):
            marker = place.format(row=view.row + 1, col=view.col + 1)
            line_end = "\n" if view.col == cols - 1 else ""
            pieces += [Text(fake + marker), rows_of(views, index), Text(line_end)]
        role: Role = "overview" if views else "whole"
        pieces.append(Text(("\n" if views else "") + fake + overview))
        views += (View(original=size, steps=steps, size=tile, grid=grid, role=role),)
        pieces += [rows_of(views, len(views) - 1), Text(fake)]
        return ImagePlan(views, joined(pieces))

    choices = (longest,) if limits.one_view else range(longest, 0, -edge)
    return largest(plan, choices, limits)
