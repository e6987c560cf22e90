"""From a picture's size to its plan: a function for each family's rule, all numbers given to it.

A tower file's `plan` calls them. Defaults are the markers that the published vocabularies hold.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from math import isqrt
from typing import TypeVar

import msgspec
import numpy as np

from engine.images.plan import ImagePlan, Learned, Limits, Role, Rows, Size, Text, View
from engine.images.tiles import (
    as_given,
    check_aspect,
    closest_aspect,
    cut,
    fill_budget,
    fit_up,
    on_canvas,
    pinpoint,
    refined,
    roomiest,
    rounded,
    slice_size,
    sliced,
    smart_resize,
    to_longest,
    to_tiles,
    unpadded,
    up_to,
    within_edge,
    within_patches,
)

Choice = TypeVar("Choice")
MINICPMV_SLICES = 9
JANUS_LEAST = 14
"""Pixels that the shorter side keeps."""
HUNYUAN_LEARNED = 3
"""Learned rows before those of the patches: the picture's begin and end, and a line's end."""
LFM2_TILES, LFM2_TOLERANCE = 10, 2.0
"""The most squares of LFM2's pictures; the pixels of one that stays whole, by those of a view."""


def rows_of(views: tuple[View, ...], index: int) -> Rows:
    """All rows of a view."""
    return Rows(index, 0, views[index].rows)


def joined(pieces: Iterable[Text | Rows | Learned]) -> tuple[Text | Rows | Learned, ...]:
    """The same pieces; texts that follow one another are one, and empty ones are left out."""
    result: list[Text | Rows | Learned] = []
    for piece in pieces:
        last = result[-1] if result else None
        if isinstance(piece, Text) and isinstance(last, Text):
            result[-1] = Text(last.text + piece.text)
        elif piece != Text(""):
            result.append(piece)
    return tuple(result)


def largest(
    plan: Callable[[Choice], ImagePlan], choices: Iterable[Choice], limits: Limits
) -> ImagePlan:
    """The plan of the first choice that keeps to the limit of rows; else that of the last one."""
    plans = map(plan, choices)
    first = made = next(plans)
    while limits.rows is not None and made.rows > limits.rows:
        smaller = next(plans, None)
        if smaller is None:
            break
        made = smaller
    if made.rows == first.rows:
        return made
    return noted(made, f"reduced from {first.rows} to {made.rows} rows by the limit")


def noted(plan: ImagePlan, note: str) -> ImagePlan:
    """The same plan with one note more."""
    return msgspec.structs.replace(plan, notes=(*plan.notes, note))


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


def pixtral(
    size: Size,
    limits: Limits,
    *,
    longest: int,
    cell: int,
    line_end: str = "[IMG_BREAK]",
    end: str = "[IMG_END]",
) -> ImagePlan:
    """No side above `longest`, both up to multiples of `cell`: patch size x merge (also Mistral 3).

    A limit of rows lowers `longest`.
    """

    def plan(longest: int) -> ImagePlan:
        inner = within_edge(size, longest)
        resized = Size(up_to(inner.w, cell), up_to(inner.h, cell))
        view = _view(size, resized, cell)
        pieces: list[Text | Rows | Learned] = []
        for row in range(view.grid.h):
            last = row == view.grid.h - 1
            pieces += [Rows(0, row * view.grid.w, view.grid.w), Text(end if last else line_end)]
        return ImagePlan((view,), joined(pieces))

    return largest(plan, range(longest, 0, -cell), limits)


def qwen(
    size: Size,
    limits: Limits,
    *,
    cell: int,
    least: int,
    most: int,
    enlarge: Callable[[Size, int], Size] = as_given,
    before: str = "<|vision_start|>",
    after: str = "<|vision_end|>",
) -> ImagePlan:
    """Sides in multiples of `cell`: patch size x merge; between `least` and `most` pixels;
    `enlarge` makes short sides as long as a cell before.

    Text goes on after the longer side's places. Raises `BadPicture` above an aspect of 200.
    """
    seen = enlarge(size, cell)

    def plan(most: int) -> ImagePlan:
        view = _view(size, smart_resize(seen, cell, min(least, most), most), cell)
        pieces = joined((Text(before), Rows(0, 0, view.rows), Text(after)))
        return ImagePlan((view,), pieces, advance=max(view.grid))

    capped = most if limits.rows is None else min(most, limits.rows * cell * cell)
    return largest(plan, dict.fromkeys((most, capped)), limits)


def hunyuan(
    size: Size,
    limits: Limits,
    *,
    cell: int,
    least: int,
    most: int,
    before: str,
    after: str,
) -> ImagePlan:
    """Resize as `qwen` does; the view's first three rows, which are learned, begin and end the
    picture, and end each line of the grid.

    Raises `BadPicture` above an aspect of 200.
    """
    begin, end, newline = (Rows(0, i, 1) for i in range(HUNYUAN_LEARNED))

    def plan(most: int) -> ImagePlan:
        view = _view(size, smart_resize(size, cell, min(least, most), most), cell)
        view = msgspec.structs.replace(view, extras=HUNYUAN_LEARNED)
        width = view.grid.w
        lines = (Rows(0, first, width) for first in range(HUNYUAN_LEARNED, view.rows, width))
        ended = chain.from_iterable((line, newline) for line in lines)
        return ImagePlan((view,), (Text(before), begin, *ended, end, Text(after)))

    capped = most if limits.rows is None else min(most, limits.rows * cell * cell)
    return largest(plan, chain((most,), range(capped, 0, -cell * cell)), limits)


def lfm2(
    size: Size,
    limits: Limits,
    *,
    patch: int,
    cell: int,
    least: int,
    most: int,
    start: str = "<|image_start|>",
    place: str = "<|img_row_{row}_col_{col}|>",
    overview: str = "<|img_thumbnail|>",
    end: str = "<|image_end|>",
) -> ImagePlan:
    """A picture of over twice `most` pixels becomes 2 to 10 squares of about that many, and one
    picture of least to most pixels of the whole; a smaller one that alone.
    """
    edge = isqrt(most // cell**2) * cell
    tile, grid = Size(edge, edge), Size(edge // cell, edge // cell)
    seen = rounded(size, cell, patch)
    is_large = seen.w * seen.h > LFM2_TOLERANCE * most and not limits.one_view

    def plan(choice: tuple[int, int]) -> ImagePlan:
        tiles, area = choice
        whole = _view(size, smart_resize(size, cell, min(least, area), area, cell), cell)
        if not tiles:
            return ImagePlan((whole,), (Text(start), Rows(0, 0, whole.rows), Text(end)))
        rows, cols = arrangement = closest_aspect(size, edge, tiles, fewest=2)
        views = cut(size, (Size(cols * edge, rows * edge),), tile, arrangement, grid)
        pieces: list[Text | Rows | Learned] = [Text(start)]
        for index, view in enumerate(views):
            pieces += [
                Text(place.format(row=view.row + 1, col=view.col + 1)),
                rows_of(views, index),
            ]
        views += (msgspec.structs.replace(whole, role="overview"),)
        pieces += [Text(overview), rows_of(views, len(views) - 1), Text(end)]
        return ImagePlan(views, joined(pieces))

    capped = most if limits.rows is None else min(most, limits.rows * cell * cell)
    alone = [(0, area) for area in dict.fromkeys((most, capped))]
    tiled = [(tiles, most) for tiles in range(LFM2_TILES, 1, -1)] if is_large else []
    return largest(plan, (*tiled, *alone), limits)


def minicpmv(
    size: Size,
    limits: Limits,
    *,
    edge: int,
    unit: int,
    queries: int = 0,
    is_counted: bool,
    wraps: bool = False,
    most: int = MINICPMV_SLICES,
    before: str = "<image>",
    after: str = "</image>",
    slice_start: str = "<slice>",
    slice_end: str = "</slice>",
) -> ImagePlan:
    """The whole picture, and a large one also in up to `most` slices of edge x edge pixels; each
    has `queries` rows, or one for each `unit` where there are none. Version 2.5 `wraps` all slices
    in one pair of marks.

    Raises `BadPicture` above an aspect of 200.
    """
    check_aspect(size)
    outer = (slice_start, slice_end) if wraps else ("", "")
    inner = (before, after) if wraps else (slice_start, slice_end)

    def grid_of(view: Size) -> Size:
        return Size(0, 0) if queries else Size(view.w // unit, view.h // unit)

    def plan(most: int) -> ImagePlan:
        rows, cols = arrangement = sliced(size, edge, most)
        is_cut = rows * cols > 1
        whole = slice_size(size.w / size.h, edge, unit)
        role: Role = "overview" if is_cut else "whole"
        views: tuple[View, ...] = (
            View(size, (whole,), whole, grid_of(whole), role=role, extras=queries),
        )
        pieces: list[Text | Rows | Learned] = [Text(before), rows_of(views, 0), Text(after)]
        if is_cut:
            canvas = refined(size, edge, unit, arrangement)
            tile = Size(canvas.w // cols, canvas.h // rows)
            views += cut(size, (canvas,), tile, arrangement, grid_of(tile), extras=queries)
            pieces.append(Text(outer[0]))
            for index, view in enumerate(views[1:], 1):
                line_end = "\n" if view.col == cols - 1 and view.row < rows - 1 else ""
                pieces += [Text(inner[0]), rows_of(views, index), Text(inner[1] + line_end)]
            pieces.append(Text(outer[1]))
        counted = "<image_id>{}</image_id>" if is_counted else ""
        return ImagePlan(views, joined(pieces), counted=counted)

    return largest(plan, range(1 if limits.one_view else most, 0, -1), limits)


def kimi(
    size: Size,
    limits: Limits,
    *,
    patch: int,
    merge: int,
    most: int,
    longest: int,
    before: str = "<|media_start|>image<|media_content|>",
    after: str = "<|media_end|>",
) -> ImagePlan:
    """Reduced to `most` patches where it has more, then padded to whole cells of merge x merge."""
    cell = patch * merge

    def plan(most: int) -> ImagePlan:
        resized = within_patches(size, patch, most, longest)
        canvas = Size(up_to(resized.w, cell), up_to(resized.h, cell))
        grid = Size(canvas.w // cell, canvas.h // cell)
        view = View(original=size, steps=(resized,), size=canvas, grid=grid)
        return ImagePlan((view,), (Text(before), Rows(0, 0, view.rows), Text(after)))

    capped = most if limits.rows is None else min(most, limits.rows * merge**2)
    return largest(plan, chain((most,), range(capped, 0, -(merge**2))), limits)


def gemma4(
    size: Size,
    limits: Limits,
    *,
    cell: int,
    tokens: int,
    causal: bool,
    before: str = "<|image>",
    after: str = "<image|>",
) -> ImagePlan:
    """The largest size that `tokens` cells of `cell` pixels (patch size x pool) allow."""

    def plan(tokens: int) -> ImagePlan:
        view = _view(size, fill_budget(size, cell, tokens), cell)
        pieces = (Text(before), Rows(0, 0, view.rows), Text(after))
        return ImagePlan((view,), pieces, causal=causal)

    return largest(plan, dict.fromkeys((tokens, min(tokens, limits.rows or tokens))), limits)


def _view(original: Size, resized: Size, cell: int) -> View:
    grid = Size(resized.w // cell, resized.h // cell)
    return View(original=original, steps=(resized,), size=resized, grid=grid)


def gemma3(
    size: Size,
    limits: Limits,
    *,
    edge: int,
    tokens: int,
    before: str = "\n\n<start_of_image>",
    after: str = "<end_of_image>\n\n",
) -> ImagePlan:
    """Stretched to a square of `edge`; `tokens` rows, a square number, which see one another."""
    square, side = Size(edge, edge), int(tokens**0.5)
    view = View(original=size, steps=(square,), size=square, grid=Size(side, side))
    pieces = (Text(before), Rows(0, 0, view.rows), Text(after))
    return ImagePlan((view,), pieces, causal=False)


def llava(size: Size, limits: Limits, *, edge: int, patch: int) -> ImagePlan:
    """Padded to a square, then resized: a row for each patch, nothing of the picture cut off."""
    square, side = Size(edge, edge), edge // patch
    left, top = max(size.h - size.w, 0) // 2, max(size.w - size.h, 0) // 2
    view = View(
        original=size,
        steps=(square,),
        size=square,
        grid=Size(side, side),
        margin=(left, top, max(size.h - size.w, 0) - left, max(size.w - size.h, 0) - top),
    )
    return ImagePlan((view,), (Rows(0, 0, view.rows),))


def janus(
    size: Size, limits: Limits, *, edge: int, patch: int, before: str, after: str
) -> ImagePlan:
    """The longer side becomes `edge`, and the picture lies in the middle of a square: a row for
    each patch.
    """
    scale, square = edge / max(size), Size(edge, edge)
    w, h = (min(max(round(side * scale), JANUS_LEAST), edge) for side in size)
    view = View(
        original=size,
        steps=(Size(w, h),),
        size=square,
        grid=Size(edge // patch, edge // patch),
        offset=((edge - w) // 2, (edge - h) // 2),
    )
    return ImagePlan((view,), (Text(before), Rows(0, 0, view.rows), Text(after)))
