"""Cases: matrix products over every weight format, as they lie in files and in tiles."""

from collections.abc import Iterator

from engine.gguf.formats import BF16, F16, F32, Q4_0, Q4_1, Q4_K, Q6_K, Q8_0, Format
from engine.graph import ops
from engine.graph.tensor import Role, Tensor
from engine.selftest.blocks import QUANTIZED
from engine.selftest.case import MATMUL_MOST, Case, bound, dims
from engine.selftest.operands import Operands

WEIGHTS = (F32, F16, BF16, *QUANTIZED)
BASE = (F32, F16, Q8_0, Q4_0, Q4_1, Q4_K)
RAGGED = ((128, 83, 2), (128, 64, 45), (64, 1056, 67), (2048, 1, 509), (64, 77, 77))
BATCHES = ((1, 1), (3, 1), (3, 2))
REPEATS = ((1, 1), (2, 1), (1, 2), (2, 2))


def products() -> Iterator[Case]:
    """mulmat and mulmat_id."""
    for fmt in WEIGHTS:
        k = max(256, fmt.block)
        for n in range(1, 10):
            for tiled in (False, True):
                yield _mulmat(fmt, (k, 16, n), tiled, n == 3)
        for tiled in (False, True):
            yield _mulmat(fmt, (4096 if fmt.quantized else 1000, 33, 5), tiled)
            yield _mulmat(fmt, (2 * k, 193, 35), tiled, not tiled and fmt in BASE)
        for u, shared in ((2, True), (4, False)):
            for tiled in (False, True):
                yield _by_expert(fmt, k, u, 5, shared, tiled, u == 2)
    for fmt in BASE:
        for k, m, n in RAGGED:
            for tiled in (False, True):
                if k % fmt.block == 0:
                    yield _mulmat(fmt, (k, m, n), tiled)
        for batch in BATCHES:
            for repeat in REPEATS:
                yield _batched(fmt, batch, repeat)
        for tokens in (1, 4, 17, 32, 129):
            yield _by_expert(fmt, 256, 2, tokens, True, True)
    for fmt in (F32, F16):
        for order in ((0, 2, 1, 3), (0, 1, 3, 2), (0, 3, 2, 1)):
            permuted = bound(
                lambda o, t, p: ops.mulmat(
                    o.permuted(t, p, 36, 7, 3, 2), o.permuted(F32, p, 36, 9, 3, 2)
                ),
                t=fmt,
                p=order,
            )

            yield Case("mulmat", f"{fmt} permuted {dims(*order)}", permuted, MATMUL_MOST)

        views = bound(lambda o, t: ops.mulmat(o.view(t, 37, 7, 3), o.view(F32, 37, 9, 6)), t=fmt)

        yield Case("mulmat", f"{fmt} views [37,7,3] [37,9,6]", views, MATMUL_MOST, True)
    for fmt in (F32, F16, Q4_1, Q8_0, Q4_K, Q6_K):
        for n in (1, 512):
            yield _mulmat(fmt, (4096, 4096, n), True, speed=True)


def _mulmat(
    fmt: Format, sizes: tuple[int, int, int], tiled: bool, quick: bool = False, speed: bool = False
) -> Case:
    k, m, n = sizes

    def build(o: Operands) -> Tensor:
        return ops.mulmat(o.make(fmt, k, m, role=Role.WEIGHT), o.make(F32, k, n))

    label = f"{fmt}{' tiled' if tiled else ''} {dims(k, m)} {dims(k, n)}"
    return Case("mulmat", label, build, MATMUL_MOST, quick, tiled, speed)


def _batched(fmt: Format, batch: tuple[int, int], repeat: tuple[int, int]) -> Case:
    b2, b3 = batch[0] * repeat[0], batch[1] * repeat[1]

    def build(o: Operands) -> Tensor:
        return ops.mulmat(o.make(fmt, 256, 16, *batch), o.make(F32, 256, 8, b2, b3))

    label = f"{fmt} {dims(256, 16, *batch)} {dims(256, 8, b2, b3)}"
    return Case("mulmat", label, build, MATMUL_MOST, batch == (3, 2) and repeat == (2, 2))


def _by_expert(
    fmt: Format, k: int, used: int, tokens: int, shared: bool, tiled: bool, quick: bool = False
) -> Case:
    def build(o: Operands) -> Tensor:
        ids = o.ids(8, used, tokens, distinct=True)
        x = o.make(F32, k, 1 if shared else used, tokens)
        return ops.mulmat_id(o.make(fmt, k, 48, 8, role=Role.WEIGHT), x, ids)

    label = f"{fmt}{' tiled' if tiled else ''} {dims(k, 48, 8)} {dims(used, tokens)}"
    return Case("mulmat_id", f"{label}{' shared' * shared}", build, MATMUL_MOST, quick, tiled)
