"""Gather and scatter of rows."""

from dataclasses import dataclass

from engine.errors import ShapeError
from engine.gguf.formats import F32, I32, I64
from engine.graph.node import Arguments, node, writing
from engine.graph.op import Op
from engine.graph.ops.checks import check_writable
from engine.graph.tensor import Tensor


@dataclass(frozen=True)
class Gather(Arguments):
    """Rows of x, chosen by ids."""

    x: Tensor
    ids: Tensor


@dataclass(frozen=True)
class SetRows(Arguments):
    """Values for the rows of `target` that ids choose."""

    target: Tensor
    values: Tensor
    ids: Tensor


def rows(x: Tensor, ids: Tensor) -> Tensor:
    """Gather along dimension 1: x [D, R, n2, n3], ids i32 [n, n2, n3] -> [D, n, n2, n3].

    Dequantised to f32 unless i32. An id of -1 (padding) gives a row of zeros.
    """
    if ids.fmt != I32 or ids.shape[1:3] != x.shape[2:] or ids.shape[3] != 1:
        wanted = "needs x [D, R, n2, n3] and i32 ids [n, n2, n3]"
        raise ShapeError("rows", wanted, x.shape, ids.shape)
    return node(Op.ROWS, I32 if x.fmt == I32 else F32, (x.shape[0], *ids.shape[:3]), Gather(x, ids))


def set_rows(target: Tensor, values: Tensor, ids: Tensor) -> Tensor:
    """Write values f32 [D, n, n2, n3] into rows `ids` of target [D, R, n2, n3], in its type.

    ids i32 or i64 [n, i2, i3], i2 and i3 dividing n2 and n3 (indices modulo). An id of -1 is
    skipped. The result is a view of all of `target`: reading through it orders the read after the
    write.
    """
    check_writable("set_rows", values.fmt, target.fmt)
    if values.fmt != F32 or ids.fmt not in (I32, I64) or ids.shape[0] != values.shape[1]:
        wanted = "needs f32 values [D, n, n2, n3] and i32 or i64 ids [n, i2, i3]"
        raise ShapeError("set_rows", wanted, values.shape, ids.shape)
    if values.shape[2] % ids.shape[1] or values.shape[3] % ids.shape[2] or ids.shape[3] != 1:
        raise ShapeError("set_rows", "ids do not tile into values", values.shape, ids.shape)
    if values.shape[0] != target.shape[0] or values.shape[2:] != target.shape[2:]:
        raise ShapeError("set_rows", "target and values do not fit", target.shape, values.shape)
    return writing(Op.SET_ROWS, target, SetRows(target, values, ids))
