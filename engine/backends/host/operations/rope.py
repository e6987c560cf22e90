"""Rotary position embedding from tables of cosines and sines."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.backends.host.operand import Operand
from engine.graph.ops.rope import Rope
from engine.graph.tensor import Tensor


def rope(node: Tensor, out: Operand, x: Operand, table: Operand) -> None:
    """Each pair (p, q) becomes (p cos - q sin, p sin + q cos)."""
    values = x.load()  # [1, T, heads, D]
    angles = table.load((0,))  # [1, T, n_rot]
    cos, sin = np.split(angles[:, :, None, :], 2, axis=-1)
    neox = Rope.of(node).neox
    p, q = _pairs(values, angles.shape[-1], neox)
    new_p, new_q = _pairs(out.raw, angles.shape[-1], neox)
    out.raw[...] = values  # Channels that no pair has pass through.
    new_p[...] = p * cos - q * sin
    new_q[...] = p * sin + q * cos


def _pairs(x: NDArray[Any], n_rot: int, neox: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    """Views of the first and of the second channel of every pair."""
    if neox:
        return x[..., : n_rot // 2], x[..., n_rot // 2 : n_rot]
    return x[..., 0:n_rot:2], x[..., 1:n_rot:2]
