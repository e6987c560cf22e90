"""Marks of axes that carry numbers: round ones, as many as there is room for."""

from collections.abc import Callable
from math import ceil, floor, isfinite, log10

from app.widgets.plots.canvas import STEPS, Ticks

MOST_MARKS = 50


def round_marks(
    low: float,
    high: float,
    room: float,
    needed: Callable[[str], float],
    text: Callable[[float], str],
) -> Ticks:
    """Multiples of 1, 2 or 5 times a power of ten between two numbers on `room` pixels; a written
    one takes `needed(text)`.
    """
    span = high - low
    if not (isfinite(span) and span > 0 and room > 0):
        return []
    power = floor(log10(span)) - 1
    for tens in range(power, power + 4):
        for step in STEPS:
            size = step * 10.0**tens
            places = [
                n * size for n in range(ceil(low / size - 1e-9), floor(high / size + 1e-9) + 1)
            ]
            if len(places) > MOST_MARKS:
                continue
            widest = max((needed(text(at)) for at in places), default=0.0)
            if widest <= room * size / span:
                return [(at, text(at)) for at in places]
    return []


def decade_marks(
    low: float,
    high: float,
    room: float,
    needed: Callable[[str], float],
    text: Callable[[float], str],
) -> Ticks:
    """Powers of ten between two logarithms on `room` pixels; where fewer than two are visible, also
    2 and 5 times these.
    """
    span = high - low
    if not (isfinite(span) and span > 0 and room > 0):
        return []
    for steps in ((1,), (1, 2, 5), (1, 2, 3, 4, 5, 6, 7, 8, 9)):
        places = [
            tens + log10(step)
            for tens in range(floor(low), ceil(high) + 1)
            for step in steps
            if low <= tens + log10(step) <= high
        ]
        if len(places) >= 2:
            break
    marks = [(at, text(10.0**at)) for at in places]
    kept: Ticks = []
    for at, said in marks:
        gap = (at - kept[-1][0]) * room / span if kept else room
        if gap >= (needed(said) + needed(kept[-1][1])) / 2 if kept else True:
            kept.append((at, said))
    return kept
