"""Learned positions of a square, stretched or shrunk to a picture's grid: shares made on the host.

Each place of the grid is a mix of places of the square; rows and columns are mixed alike.
"""

from collections.abc import Callable
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from engine.gguf.formats import F32
from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.images.patches import Floats, Ints
from engine.layers.vision.blocks import side_of
from engine.layers.vision.tower import Array, TowerPass

Line = Callable[[int, int], Floats]
"""Shares of `side` places in each of n that lie on the same line, f32 [n, side]."""
Along = Callable[[int, int], NDArray[np.float64]]
"""Where each of n places lies on a line of `side` places, as a number from 0 to side - 1."""
CORNERS = 4
BENT = -0.75
"""The parameter of cubic convolution (Keys 1981) that PyTorch takes."""


def mixed(table: Tensor, p: TowerPass) -> Tensor:
    """Positions [E, n]: each patch's mix of those of the square `table` [E, N], by the input
    `shares` [N, n].
    """
    matrix = ops.contiguous(ops.cast(table, F32).permute(1, 0))
    return ops.matmul(matrix, p.floats("shares", side_of(table) ** 2, p.n))


def square_shares(table: Tensor, line: Line, grid: tuple[int, int], order: Ints) -> Floats:
    """The input `shares`, f32 [n, N], for places `order` of a grid of (rows, columns)."""
    side, (rows, cols) = side_of(table), grid
    y, x = np.divmod(order, cols)
    shares = line(side, rows)[y, :, None] * line(side, cols)[x, None, :]
    return shares.reshape(len(order), side * side)


def shrunk(side: int, n: int) -> Floats:
    """A triangle around each place, as wide as a place of the coarser of both (Pillow's bilinear
    filter).
    """
    scale = side / n
    centre = (np.arange(n) + 0.5) * scale
    away = np.abs(np.arange(side) + 0.5 - centre[:, None]) / max(scale, 1.0)
    parts = np.maximum(1 - away, 0)
    shares: Floats = (parts / parts.sum(1, keepdims=True)).astype(np.float32)
    return shares


def bicubic(side: int, n: int) -> Floats:
    """The four places around each; what lies outside is the place at the border (PyTorch)."""
    centre = (np.arange(n) + 0.5) * side / n - 0.5
    first = np.floor(centre).astype(np.int32) - 1
    shares = np.zeros((n, side))
    for k in range(4):
        away = np.abs(centre - first - k)
        near = ((BENT + 2) * away - (BENT + 3)) * away**2 + 1
        far = ((away - 5) * away + 8) * away * BENT - 4 * BENT
        np.add.at(
            shares,
            (np.arange(n), np.clip(first + k, 0, side - 1)),
            np.where(away <= 1, near, far),
        )
    return shares.astype(np.float32)


def mixed_corners(table: Tensor, p: TowerPass) -> Tensor:
    """Positions [E, n]: each patch's mix of the four rows of `table` [E, N] around its place, by
    the inputs that `corners` makes.
    """
    side_of(table)
    parts = [
        ops.mul(ops.rows(table, p.ints(f"corner_{k}", p.n)), p.floats(f"share_{k}", 1, p.n))
        for k in range(CORNERS)
    ]
    return reduce(ops.add, parts)


def corners(table: Tensor, along: Along, grid: tuple[int, int], order: Ints) -> dict[str, Array]:
    """For places `order` of a grid of (rows, columns) on the square `table`: the four rows around
    each, `corner_k` i32 [n], and their shares `share_k` f32 [n, 1].
    """
    side, (rows, cols) = side_of(table), grid
    y, x = np.divmod(order, cols)
    down, right = along(side, rows)[y], along(side, cols)[x]
    top, left = down.astype(np.int32), right.astype(np.int32)
    below, beside = np.minimum(top + 1, side - 1), np.minimum(left + 1, side - 1)
    dy, dx = down - top, right - left
    around = (
        (top, left, (1 - dy) * (1 - dx)),
        (top, beside, (1 - dy) * dx),
        (below, left, dy * (1 - dx)),
        (below, beside, dy * dx),
    )
    made: dict[str, Array] = {}
    for k, (row, col, share) in enumerate(around):
        made[f"corner_{k}"] = (row * side + col).astype(np.int32)
        made[f"share_{k}"] = share.astype(np.float32)[:, None]
    return made


def edge_to_edge(side: int, n: int) -> NDArray[np.float64]:
    """The first and the last lie on the ends of the line."""
    return np.linspace(0, side - 1, n)


def half_pixels(side: int, n: int, excess: float = 0.0) -> NDArray[np.float64]:
    """Places are pixels, whose centres are compared; the line is stretched to n and `excess`."""
    centre = (np.arange(n) + 0.5) * side / (n + excess) - 0.5
    return np.clip(centre, 0, side - 1)
