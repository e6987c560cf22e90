"""Gather and scatter of rows."""

from engine.errors import ShapeError
from engine.gguf.formats import F32, I32
from engine.graph.tensor import Op, Tensor, node


def rows(x: Tensor, ids: Tensor) -> Tensor:
    """Gather along dimension 1: x [D, R], ids i32 [n] -> [D, n]; dequantised to f32 unless i32.

    An id of -1 (padding) gives a row of zeros.
    """
    if ids.fmt != I32 or ids.dims != (ids.shape[0],) or x.shape[2:] != (1, 1):
        raise ShapeError("rows", "needs x [D, R] and i32 ids [n]", x.shape, ids.shape)
    return node(Op.ROWS, I32 if x.fmt == I32 else F32, (x.shape[0], ids.shape[0]), x, ids)


def set_rows(target: Tensor, values: Tensor, ids: Tensor) -> Tensor:
    """Write values f32 [D, n] into rows `ids` i32 [n] of target [D, R], converting to its type.

    An id of -1 is skipped. The result is a view of all of `target`: reading through it orders the
    read after the write.
    """
    if values.fmt != F32 or ids.fmt != I32 or ids.shape[0] != values.shape[1]:
        raise ShapeError(
            "set_rows", "needs f32 values [D, n] and i32 ids [n]", values.shape, ids.shape
        )
    if values.shape[0] != target.shape[0] or target.shape[2:] != (1, 1):
        raise ShapeError("set_rows", "rows differ in length", target.shape, values.shape)
    return Tensor(
        Op.SET_ROWS,
        target.fmt,
        target.shape,
        target.strides,
        (target, values, ids),
        root=target.storage,
        offset=target.offset,
    )
