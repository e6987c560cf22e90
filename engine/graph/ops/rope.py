"""Rotary position embedding (Su et al. 2021), from tables made once per step on the host."""

from dataclasses import KW_ONLY, dataclass

from engine.errors import ShapeError
from engine.gguf.formats import F32
from engine.graph.node import Arguments, node
from engine.graph.op import Op
from engine.graph.ops.checks import check_floats
from engine.graph.ops.copy import cast
from engine.graph.tensor import Tensor


@dataclass(frozen=True)
class Rope(Arguments):
    """Pairs of channels of x, turned by the angles of a table."""

    x: Tensor
    table: Tensor
    _: KW_ONLY
    neox: bool


def rope(x: Tensor, table: Tensor, neox: bool) -> Tensor:
    """Rotate pairs of x [D, heads, T] by table [n_rot, T]: n_rot/2 cosines, then n_rot/2 sines.

    Pair i is (2i, 2i+1), or with `neox` (i, i + n_rot/2); channels from n_rot on pass through.
    Quantised x is dequantised first.
    """
    if x.fmt.quantized:
        x = cast(x, F32)
    check_floats("rope", x)
    n_rot, n_tokens = table.shape[:2]
    fits = table.shape[2:] == (1, 1) and n_tokens == x.shape[2] and n_rot <= x.shape[0]
    if n_rot % 2 or not fits or table.fmt != F32:
        raise ShapeError("rope", "the table does not fit x", x.shape, table.shape)
    return node(Op.ROPE, F32, x.shape, Rope(x, table, neox=bool(neox)))
