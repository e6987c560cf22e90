"""Learned positions of a square, stretched or shrunk to a picture's grid: shares made on the host.

Each place of the grid is a mix of places of the square; rows and columns are mixed alike.
"""

from collections.abc import Callable

import numpy as np

from engine.gguf.formats import F32
from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.images.patches import Floats, Ints
from engine.layers.vision.blocks import side_of
from engine.layers.vision.tower import TowerPass

Line = Callable[[int, int], Floats]
"""Shares of `side` places in each of n that lie on the same line, f32 [n, side]."""
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


def bilinear(side: int, n: int) -> Floats:
    """The two places around each; what lies outside is the place at the border (PyTorch)."""
    centre = np.clip((np.arange(n) + 0.5) * side / n - 0.5, 0, side - 1)
    away = np.abs(np.arange(side) - centre[:, None])
    shares: Floats = np.maximum(1 - away, 0).astype(np.float32)
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
