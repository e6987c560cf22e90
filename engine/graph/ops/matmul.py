"""Matrix products."""

from dataclasses import KW_ONLY, dataclass

from engine.errors import ShapeError
from engine.gguf.formats import F32, I32
from engine.graph.node import Arguments, node
from engine.graph.op import Op
from engine.graph.ops.checks import check_floats, check_matrix
from engine.graph.tensor import Tensor


@dataclass(frozen=True)
class Matmul(Arguments):
    """Rows of a times rows of b."""

    a: Tensor
    b: Tensor
    _: KW_ONLY
    full_precision: bool


@dataclass(frozen=True)
class MatmulId(Arguments):
    """Experts, rows, and the ids of the experts that each row meets."""

    a: Tensor
    b: Tensor
    ids: Tensor


def matmul(a: Tensor, b: Tensor, *, full_precision: bool = False) -> Tensor:
    """out[m, n] = sum_k a[k, m] * b[k, n].

    f32 [M, N, b2, b3] of a [K, M, a2, a3] and b [K, N, b2, b3]. `a` may be quantised. Batches are
    grouped: b's index divided by b2/a2 (grouped-query attention). `full_precision` forbids that a
    device rounds `b` before it multiplies.
    """
    _check_rows("matmul", a, b)
    if b.shape[2] % a.shape[2] or b.shape[3] % a.shape[3]:
        raise ShapeError("matmul", "batches do not group", a.shape, b.shape)
    shape = (a.shape[1], b.shape[1], b.shape[2], b.shape[3])
    return node(Op.MATMUL, F32, shape, Matmul(a, b, full_precision=full_precision))


def matmul_id(a: Tensor, b: Tensor, ids: Tensor) -> Tensor:
    """out[:, u, t] = a[:, :, ids[u, t]]^T b[:, u mod s, t]: each token with its own experts.

    f32 [M, U, T] of a [K, M, E], which may be quantised, b [K, s, T] and ids i32 [U, T].
    An id that names no expert gives zeros.
    """
    _check_rows("matmul_id", a, b)
    used, tokens = ids.shape[:2]
    if ids.fmt != I32 or ids.shape[2:] != (1, 1) or used % b.shape[1] or tokens != b.shape[2]:
        raise ShapeError("matmul_id", "b and the i32 ids do not fit", b.shape, ids.shape)
    if a.shape[3] != 1 or b.shape[3] != 1:
        raise ShapeError("matmul_id", "has three dimensions", a.shape, b.shape)
    return node(Op.MATMUL_ID, F32, (a.shape[1], used, tokens), MatmulId(a, b, ids))


def _check_rows(op: str, a: Tensor, b: Tensor) -> None:
    check_matrix(op, a)
    check_floats(op, b)
    if a.shape[0] != b.shape[0]:
        names = f"{a.name or 'a'} and {b.name or 'b'}"
        raise ShapeError(op, f"the first dimensions of {names} differ", a.shape, b.shape)
    if a.strides[0] > a.strides[1] and a.shape[1] > 1:
        raise ShapeError(
            op, "the first operand is transposed; make it contiguous", a.shape, b.shape
        )
