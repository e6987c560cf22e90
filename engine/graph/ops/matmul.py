"""Matrix products."""

from engine.errors import ShapeError
from engine.gguf.formats import F32
from engine.graph.tensor import Op, Tensor, node


def mulmat(a: Tensor, b: Tensor) -> Tensor:
    """out[m, n] = sum_k a[k, m] * b[k, n].

    f32 [M, N, b2, b3] of a [K, M, a2, a3] and b [K, N, b2, b3]. `a` may be quantised. Batches are
    grouped: b's index divided by b2/a2 (grouped-query attention).
    """
    if a.shape[0] != b.shape[0]:
        names = f"{a.name or 'a'} and {b.name or 'b'}"
        raise ShapeError("mulmat", f"the first dimensions of {names} differ", a.shape, b.shape)
    if b.shape[2] % a.shape[2] or b.shape[3] % a.shape[3]:
        raise ShapeError("mulmat", "batches do not group", a.shape, b.shape)
    if a.strides[0] > a.strides[1] and a.shape[1] > 1:
        raise ShapeError("mulmat", "the first operand is transposed; make it contiguous", a.shape)
    return node(Op.MULMAT, F32, (a.shape[1], b.shape[1], b.shape[2], b.shape[3]), a, b)
