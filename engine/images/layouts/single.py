"""One view of a fixed size: Gemma 3, LLaVA 1.5."""

from engine.images.plan import ImagePlan, Limits, Rows, Size, Text, View


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
