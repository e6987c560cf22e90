"""Sizes, canvases and grids: arithmetic on widths and heights, as the families' processors have it.

Where a rule rounds, the order of its floating-point operations is the published processor's. Grids
and arrangements of tiles are (rows, columns).
"""

from collections.abc import Sequence
from math import ceil, floor, log, sqrt

import numpy as np

from engine.errors import BadPicture
from engine.images.plan import Size, View

MOST_ASPECT = 200  # of Qwen's processors, which refuse longer pictures

Arrangement = tuple[int, int]


def fit(size: Size, box: Size) -> Size:
    """The largest size of the same aspect within a box; the shorter side is cut off, at least 1."""
    by_w, by_h = box.w / size.w, box.h / size.h
    if by_w < by_h:
        return Size(box.w, max(min(floor(size.h * by_w), box.h), 1))
    return Size(max(min(floor(size.w * by_h), box.w), 1), box.h)


def fit_up(size: Size, box: Size) -> Size:
    """Like `fit`, with the shorter side rounded up (LLaVA 1.6)."""
    by_w, by_h = box.w / size.w, box.h / size.h
    if by_w < by_h:
        return Size(box.w, min(ceil(size.h * by_w), box.h))
    return Size(min(ceil(size.w * by_h), box.w), box.h)


def up_to(value: int, unit: int) -> int:
    """The next multiple."""
    return -(-value // unit) * unit


def within_edge(size: Size, longest: int) -> Size:
    """Reduced until no side is longer than `longest` (Pixtral); sides are cut off, at least 1."""
    ratio = max(size.h / longest, size.w / longest)
    if ratio <= 1:
        return size
    return Size(max(floor(size.w / ratio), 1), max(floor(size.h / ratio), 1))


def as_given(size: Size, shortest: int) -> Size:
    """The same size: also a short side is left as it is."""
    return size


def enlarged(size: Size, shortest: int) -> Size:
    """Enlarged until both sides have `shortest` (GLM)."""
    if min(size) >= shortest:
        return size
    scale = max(shortest / size.h, shortest / size.w)
    return Size(int(size.w * scale), int(size.h * scale))


def enlarged_by_sides(size: Size, shortest: int) -> Size:
    """Enlarged until the height has `shortest`, then until the width has, rounded (PaddleOCR)."""
    w, h = size
    if h < shortest:
        w, h = round(w * shortest / h), shortest
    if w < shortest:
        w, h = shortest, round(h * shortest / w)
    return Size(w, h)


def smart_resize(size: Size, unit: int, least: int, most: int, shortest: int = 0) -> Size:
    """Sides in multiples of `unit`, rounded half to even; least <= pixels <= most (Qwen). A side
    that is rounded is at least `shortest`.

    Raises `BadPicture` where one side is more than 200 times the other.
    """
    check_aspect(size)
    w, h = size
    new = rounded(Size(w, h), unit, shortest)
    if new.w * new.h > most:
        factor = sqrt(h * w / most)
        return Size(
            max(unit, floor(w / factor / unit) * unit), max(unit, floor(h / factor / unit) * unit)
        )
    if new.w * new.h < least:
        factor = sqrt(least / (h * w))
        return Size(ceil(w * factor / unit) * unit, ceil(h * factor / unit) * unit)
    return new


def check_aspect(size: Size) -> None:
    """Raises `BadPicture` where one side is more than 200 times the other."""
    longer, shorter = max(size), min(size)
    if longer > MOST_ASPECT * shorter:
        raise BadPicture(
            f"picture of {size}",
            f"one side is {longer / shorter:.0f} times the other; this model takes up to"
            f" {MOST_ASPECT}: cut it",
        )


def rounded(size: Size, unit: int, shortest: int) -> Size:
    """Sides in multiples of `unit`, rounded half to even, or `shortest`."""
    w, h = (max(shortest, round(side / unit) * unit) for side in size)
    return Size(w, h)


def fill_budget(size: Size, unit: int, cells: int) -> Size:
    """The largest size in multiples of `unit` whose area is at most `cells` of them (Gemma 4)."""
    factor = sqrt(cells * unit**2 / (size.h * size.w))
    w = floor(factor * size.w / unit)
    h = floor(factor * size.h / unit)
    if h == 0:
        w, h = min(size.w // size.h, cells), 1
    elif w == 0:
        w, h = 1, min(size.h // size.w, cells)
    return Size(w * unit, h * unit)


def arrangements(most: int) -> list[Arrangement]:
    """All of up to `most` tiles, rows first; the index + 1 is mllama's aspect id."""
    return [
        (rows, cols)
        for rows in range(1, most + 1)
        for cols in range(1, most + 1)
        if rows * cols <= most
    ]


def roomiest(size: Size, tile: int, most: int, kind: type[np.floating] = np.float64) -> Arrangement:
    """The canvas that shrinks a picture least, else enlarges it least; then the smallest.

    Scales are computed and compared as `kind`: of two that differ in the last bit one wins.
    """
    canvases = arrangements(most)
    scales = [
        min(kind(tile * cols) / kind(size.w), kind(tile * rows) / kind(size.h))
        for rows, cols in canvases
    ]
    enlarging = [scale for scale in scales if scale >= 1]
    best = min(enlarging) if enlarging else max(scales)
    fitting = [canvas for canvas, scale in zip(canvases, scales, strict=True) if scale == best]
    return min(fitting, key=lambda canvas: canvas[0] * canvas[1])


def on_canvas(size: Size, tile: int, arrangement: Arrangement) -> Size:
    """How large a picture lies on its canvas: not enlarged beyond one tile (mllama, llama4)."""
    rows, cols = arrangement
    box = Size(min(max(size.w, tile), tile * cols), min(max(size.h, tile), tile * rows))
    return fit(size, box)


def closest_aspect(size: Size, tile: int, most: int, fewest: int = 1) -> Arrangement:
    """The arrangement of `fewest` to `most` tiles whose aspect is nearest to the picture's
    (InternVL).

    Of equally near ones the larger, as long as the picture has half its pixels.
    """
    aspect, best, least = size.w / size.h, (1, 1), float("inf")
    canvases = [(rows, cols) for cols, rows in arrangements(most)]  # by columns, then rows
    enough = [canvas for canvas in canvases if canvas[0] * canvas[1] >= fewest]
    for rows, cols in sorted(enough, key=lambda canvas: canvas[0] * canvas[1]):
        away = abs(aspect - cols / rows)
        if away < least or (away == least and size.w * size.h > 0.5 * tile * tile * rows * cols):
            best, least = (rows, cols), away
    return best


def within_patches(size: Size, patch: int, most: int, longest: int) -> Size:
    """Reduced until `most` whole patches remain, and no side has more than `longest` (Kimi)."""
    count = max(1.0, size.h // patch) * max(1.0, size.w // patch)
    scale = min(1.0, sqrt(most / count), longest * patch / size.h, longest * patch / size.w)
    w, h = (min(max(1, int(side * scale)), longest * patch) for side in size)
    return Size(w, h)


def sliced(size: Size, edge: int, most: int) -> Arrangement:
    """Into how many slices of about edge x edge pixels a picture is cut: (1, 1) up to that many
    pixels, else the arrangement nearest to its aspect, of one slice fewer to one more than its
    pixels need (MiniCPM-V).
    """
    needed = min(ceil(size.w * size.h / (edge * edge)), most)
    if needed <= 1:
        return 1, 1
    aspect, best, least = log(size.w / size.h), (1, 1), float("inf")
    for count in range(max(needed - 1, 2), min(needed + 1, most) + 1):
        for cols in (c for c in range(1, count + 1) if count % c == 0):
            away = abs(aspect - log(cols / (count // cols)))
            if away < least:
                best, least = (count // cols, cols), away
    return best


def slice_size(aspect: float, edge: int, unit: int) -> Size:
    """About edge x edge pixels of that aspect; sides in multiples of `unit`, rounded half to even
    (MiniCPM-V).
    """
    h = int(edge / sqrt(aspect))
    w = int(h * aspect)
    return Size(max(round(w / unit) * unit, unit), max(round(h / unit) * unit, unit))


def refined(size: Size, edge: int, unit: int, arrangement: Arrangement) -> Size:
    """A picture's size before it is cut into slices that are alike (MiniCPM-V)."""
    rows, cols = arrangement
    w, h = (max(round(s / n) * n, n) / n for s, n in ((size.w, cols), (size.h, rows)))
    tile = slice_size(w / h, edge, unit)
    return Size(tile.w * cols, tile.h * rows)


def to_longest(size: Size, longest: int) -> Size:
    """The longer side becomes `longest`, the other one even (Idefics 3)."""
    aspect = size.w / size.h
    if size.w >= size.h:
        h = int(longest / aspect)
        return Size(longest, max(h + h % 2, 1))
    w = int(longest * aspect)
    return Size(max(w + w % 2, 1), longest)


def to_tiles(size: Size, tile: int) -> Size:
    """The longer side up to a multiple of `tile`, the other by the aspect, then up (Idefics 3)."""
    aspect = size.w / size.h
    if size.w >= size.h:
        w = up_to(size.w, tile)
        return Size(w, up_to(max(int(w / aspect), 1), tile))
    h = up_to(size.h, tile)
    return Size(up_to(max(int(h * aspect), 1), tile), h)


def pinpoint(size: Size, choices: Sequence[Size]) -> Size:
    """The canvas that keeps most of a picture's pixels, then wastes least (LLaVA 1.6)."""

    def value(canvas: Size) -> tuple[int, int]:
        scale = min(canvas.w / size.w, canvas.h / size.h)
        kept = min(int(size.w * scale) * int(size.h * scale), size.w * size.h)
        return kept, kept - canvas.w * canvas.h

    return max(choices, key=value)


def unpadded(size: Size, grid: Size) -> tuple[range, range]:
    """Which rows and columns of a canvas's grid hold the picture that lies in its middle."""
    if size.w / size.h > grid.w / grid.h:
        inner = int(round(size.h * (grid.w / size.w), 7))
        away = (grid.h - inner) // 2
        return range(away, grid.h - away), range(grid.w)
    inner = int(round(size.w * (grid.h / size.h), 7))
    away = (grid.w - inner) // 2
    return range(grid.h), range(away, grid.w - away)


def cut(
    original: Size,
    steps: tuple[Size, ...],
    tile: Size,
    arrangement: Arrangement,
    grid: Size,
    at: tuple[int, int] = (0, 0),
    extras: int = 0,
) -> tuple[View, ...]:
    """The tiles of a canvas in raster order; on it the resized picture's corner lies at `at`."""
    rows, cols = arrangement
    return tuple(
        View(
            original=original,
            steps=steps,
            size=tile,
            grid=grid,
            offset=(at[0] - col * tile.w, at[1] - row * tile.h),
            role="tile" if rows * cols > 1 else "whole",
            row=row,
            col=col,
            extras=extras,
        )
        for row in range(rows)
        for col in range(cols)
    )
