"""Helpers that all layouts share: joining texts, and limiting rows."""

from collections.abc import Callable, Iterable

import msgspec

from engine.images.plan import ImagePlan, Learned, Limits, Rows, Text, View


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


def largest(plan: Callable[[int], ImagePlan], choices: Iterable[int], limits: Limits) -> ImagePlan:
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
