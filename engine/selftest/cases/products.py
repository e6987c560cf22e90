"""Cases: matrix products over every weight format, as they lie in files and in tiles."""

from collections.abc import Iterator

from engine.gguf.formats import (
    BF16,
    F16,
    F32,
    MXFP4,
    Q4_0,
    Q4_1,
    Q4_K,
    Q5_K,
    Q6_K,
    Q8_0,
    Format,
)
from engine.graph import ops
from engine.graph.tensor import Role, Tensor
from engine.selftest.case import MATMUL_MOST, Case, bound, dims
from engine.selftest.operands import QUANTIZED, Operands

WEIGHTS = (F32, F16, BF16, *QUANTIZED)
BASE = (F32, F16, Q8_0, Q4_0, Q4_1, Q4_K)
# [k, m, n]: no multiples of anything; many columns, and a single row.
RAGGED = (
    (128, 83, 2),
    (128, 64, 45),
    (64, 1056, 67),
    (2048, 1, 509),
    (64, 1, 2048),
    (64, 77, 77),
)
TALL = ((1024, 4096), (4096, 1023))
BATCHES = ((1, 1), (3, 1), (3, 2))
REPEATS = ((1, 1), (2, 1), (1, 2), (2, 2))
ORDERS = ((0, 2, 1, 3), (0, 1, 3, 2), (0, 3, 2, 1))


def products() -> Iterator[Case]:
    """matmul and matmul_id."""
    for fmt in WEIGHTS:
        yield from _every_width(fmt)
    for fmt in BASE:
        yield from _shapes(fmt)
        yield from _experts(fmt)
    for fmt in (F32, F16, BF16):
        for k, m, n in ((4, 16, 9), (257, 17, 9), (1000, 33, 5)):
            for tiled in (False, True):
                yield _matmul(fmt, (k, m, n), tiled)
        for k in (1, 63, 65):
            yield _by_expert(fmt, (k, 48, 8), 2, 5, True, True)
    for fmt in (Q4_K, Q5_K):
        for k, m in TALL:
            for n in (1, 3, 8):
                yield _matmul(fmt, (k, m, n), n > 1)
    # More rows than one group of a GPU's lanes makes, and as many columns.
    yield _matmul(Q4_0, (64, 33, 33), True, quick=True)
    for fmt in (Q4_0, MXFP4):
        yield _matmul(fmt, (2880, 2880, 32), True)
    yield _by_expert(F16, (64, 50, 16), 16, 200, False, True)
    yield _by_expert(Q8_0, (64, 16, 512), 10, 7, True, True)
    many = bound(lambda o: ops.matmul(o.make(F16, 33, 8, 1536), o.make(F32, 33, 5, 1536)))
    yield Case("matmul", "F16 [33,8,1536] [33,5,1536]", many, MATMUL_MOST)
    for fmt in (F32, F16, Q4_1, Q8_0, Q4_K, Q6_K):
        for n in (1, 512):
            yield _matmul(fmt, (4096, 4096, n), True, speed=True)


def _every_width(fmt: Format) -> Iterator[Case]:
    """Short and long rows, one column to nine; then no multiples of a tile."""
    k = max(256, fmt.block)
    for tiled in (False, True):
        for n in range(1, 10):
            yield _matmul(fmt, (k, 16, n), tiled, n == 3 or (tiled and n == 1))
            yield _matmul(fmt, (4096, 16, n), tiled)
        yield _matmul(fmt, (4096, 33, 5), tiled)
        yield _matmul(fmt, (2 * k, 193, 35), tiled, not tiled and fmt in BASE)
        if tiled or fmt in BASE:  # as experts lie in devices; the others' rows are tried above
            for used, shared in ((2, True), (4, False)):
                yield _by_expert(fmt, (k, 48, 8), used, 5, shared, tiled, used == 2)


def _shapes(fmt: Format) -> Iterator[Case]:
    """Ragged sizes, batches, permutations, views, and a second operand of other types."""
    for k, m, n in RAGGED:
        for tiled in (False, True):
            if k % fmt.block == 0:
                yield _matmul(fmt, (k, m, n), tiled)
    for batch in BATCHES:
        for repeat in REPEATS:
            for n in (1, 4, 8, 16):
                yield _batched(fmt, batch, repeat, n)
    for order in ORDERS:
        for n in (1, 4, 8, 16):
            permuted = bound(
                lambda o, p, n: ops.matmul(
                    o.permuted(fmt, p, 256, 16, 3, 2), o.permuted(F32, p, 256, n, 3, 2)
                ),
                p=order,
                n=n,
            )
            label = f"{fmt} permuted {dims(*order)} [256,16,3,2] {dims(256, n, 3, 2)}"
            yield Case("matmul", label, permuted, MATMUL_MOST)
    k = 256 if fmt.quantized else 37
    views = bound(lambda o: ops.matmul(o.view(fmt, k, 7, 3), o.view(F32, k, 9, 6)))
    label = f"{fmt} views {dims(k, 7, 3)} {dims(k, 9, 6)}"
    yield Case("matmul", label, views, MATMUL_MOST, not fmt.quantized)
    for other in (F16, BF16):
        narrow = bound(lambda o, t: ops.matmul(o.make(fmt, 256, 16), o.make(t, 256, 9)), t=other)
        yield Case("matmul", f"{fmt} [256,16] {other} [256,9]", narrow, MATMUL_MOST)


def _experts(fmt: Format) -> Iterator[Case]:
    for experts in (4, 8):
        for used in (1, 2, 4):
            for i, tokens in enumerate((1, 4, 17, 32, 129)):
                shared, tiled = bool((i + used) % 2), tokens != 4
                yield _by_expert(fmt, (256, 32, experts), used, tokens, shared, tiled)
    # So many tokens that their pairs are grouped by expert.
    yield _by_expert(fmt, (256, 512, 4), 2, 32, True, True, quick=fmt is Q4_K)
    yield _by_expert(fmt, (256, 32, 4), 2, 32, True, True, spread=1e5)


def _matmul(
    fmt: Format, sizes: tuple[int, int, int], tiled: bool, quick: bool = False, speed: bool = False
) -> Case:
    k, m, n = sizes

    def build(o: Operands) -> Tensor:
        return ops.matmul(o.make(fmt, k, m, role=Role.WEIGHT), o.make(F32, k, n))

    label = f"{fmt}{' tiled' if tiled else ''} {dims(k, m)} {dims(k, n)}"
    return Case("matmul", label, build, MATMUL_MOST, quick, tiled, speed)


def _batched(fmt: Format, batch: tuple[int, int], repeat: tuple[int, int], n: int) -> Case:
    b2, b3 = batch[0] * repeat[0], batch[1] * repeat[1]

    def build(o: Operands) -> Tensor:
        return ops.matmul(o.make(fmt, 256, 16, *batch), o.make(F32, 256, n, b2, b3))

    label = f"{fmt} {dims(256, 16, *batch)} {dims(256, n, b2, b3)}"
    quick = (batch, repeat, n) == ((3, 2), (2, 2), 8)
    return Case("matmul", label, build, MATMUL_MOST, quick)


def _by_expert(
    fmt: Format,
    sizes: tuple[int, int, int],
    used: int,
    tokens: int,
    shared: bool,
    tiled: bool,
    quick: bool = False,
    spread: float = 1.0,
) -> Case:
    """`sizes`: k, m, how many experts; `shared` where all of a token's read the same row."""
    k, m, experts = sizes

    def build(o: Operands) -> Tensor:
        ids = o.ids(experts, used, tokens, distinct=True)
        x = o.make(F32, k, 1 if shared else used, tokens, spread=spread)
        return ops.matmul_id(o.make(fmt, k, m, experts, role=Role.WEIGHT), x, ids)

    label = f"{fmt}{' tiled' if tiled else ''} {dims(k, m, experts)} {dims(used, tokens)}"
    extras = f"{' shared' * shared}{' large' * (spread > 1)}"
    return Case("matmul_id", label + extras, build, MATMUL_MOST, quick, tiled)
