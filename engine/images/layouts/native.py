"""One view of about the picture's own size and aspect: Pixtral, Qwen-VL, Gemma 4."""

from engine.images.layouts.assemble import joined, largest
from engine.images.plan import ImagePlan, Learned, Limits, Rows, Size, Text, View
from engine.images.tiles import fill_budget, smart_resize, up_to, within_edge


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
        return ImagePlan((view,), tuple(pieces))

    return largest(plan, range(longest, 0, -cell), limits)


def qwen(
    size: Size,
    limits: Limits,
    *,
    cell: int,
    least: int,
    most: int,
    before: str = "<|vision_start|>",
    after: str = "<|vision_end|>",
) -> ImagePlan:
    """Sides in multiples of `cell`: patch size x merge; between `least` and `most` pixels.

    Text goes on after the longer side's places. Raises `BadPicture` above an aspect of 200.
    """

    def plan(most: int) -> ImagePlan:
        view = _view(size, smart_resize(size, cell, min(least, most), most), cell)
        pieces = joined((Text(before), Rows(0, 0, view.rows), Text(after)))
        return ImagePlan((view,), pieces, advance=max(view.grid))

    capped = most if limits.rows is None else min(most, limits.rows * cell * cell)
    return largest(plan, dict.fromkeys((most, capped)), limits)


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
