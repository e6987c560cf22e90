"""Blocks that hold keys and values: written as the `gguf` package writes them, and read."""

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

from engine.backends.opencl.backend import OpenCLBackend
from engine.gguf.formats import BF16, F16, F32, I32, I64, Q4_0, Q8_0, Format
from engine.graph import ops
from engine.graph.op import Op
from engine.graph.tensor import Role, Tensor, leaf
from tests.kernels.blocks import Blocks, exact, random_blocks
from tests.kernels.harness import nmse, run, run_all
from tests.kernels.test_attention import MASKS, SIZES, Sizes, attended, visibility
from tests.kernels.test_fuse import Attention, Heads, attended_ops, lowered_ops
from tests.kernels.values import Operands, to_bf16

KINDS = {Q8_0: gguf.GGMLQuantizationType.Q8_0, Q4_0: gguf.GGMLQuantizationType.Q4_0}
BLOCKS = pytest.mark.parametrize("fmt", KINDS, ids=str)


def cache(made: Operands, fmt: Format, *shape: int) -> Tensor:
    """A leaf of random blocks."""
    tensor = leaf(f"x{len(made.values)}", fmt, shape, Role.CACHE)
    rows = tensor.nelements // shape[0]
    made.values[tensor] = random_blocks(made.rng, fmt, rows, shape[0])
    return tensor


def packed(numbers: NDArray[np.generic], fmt: Format) -> Blocks:
    with np.errstate(all="ignore"):
        return gguf.quantize(numbers.astype(np.float32), KINDS[fmt])


def assert_same_blocks(got: Blocks, want: Blocks, fmt: Format) -> None:
    """Equal but for roundings of numbers that lie halfway between two: a few in ten thousand."""
    assert got.shape == want.shape
    rows = got.reshape(-1, fmt.bytes)
    differ = (rows != want.reshape(-1, fmt.bytes)).sum(0)
    assert differ[:2].sum() <= 1e-3 * len(rows), "scales"
    assert differ[2:].sum() <= 3e-4 * got.size
    assert nmse(exact(got, fmt), exact(want, fmt)) < 1e-5


@BLOCKS
@pytest.mark.parametrize(("width", "rows"), [(32, 1), (192, 1), (576, 300), (4096, 3)])
def test_cast_to_blocks(either: OpenCLBackend, fmt: Format, width: int, rows: int) -> None:
    made = Operands()
    x = made.make(F32, width, rows)
    got = run(either, ops.cast(x, fmt), made.values)
    assert_same_blocks(got.reshape(rows, -1), packed(made.values[x], fmt), fmt)


@BLOCKS
def test_cast_of_a_view_to_blocks(either: OpenCLBackend, fmt: Format) -> None:
    made = Operands()
    whole = made.make(F32, 100, 6, 5)
    x = whole.view(12, (64, 4, 5), whole.strides[1:3]).permute(0, 2, 1)
    got = run(either, ops.cast(x, fmt), made.values)
    want = packed(made.values[whole][:, :4, 3:67].transpose(1, 0, 2).reshape(20, 64), fmt)
    assert_same_blocks(got.reshape(20, -1), want, fmt)


@pytest.mark.sampled(3)
@BLOCKS
@pytest.mark.parametrize("size", [0.0, 1e-44, 1e-38, 1e-31, 1e-6, 1e4, 4e5])
def test_any_magnitude(either: OpenCLBackend, fmt: Format, size: float) -> None:
    """What is too small for a half is zero; nothing else becomes infinite."""
    made = Operands()
    x = made.put(F32, np.linspace(-1, 0.7, 64).reshape(2, 32) * size)
    got = exact(run(either, ops.cast(x, fmt), made.values).reshape(2, -1), fmt)
    want = exact(packed(made.values[x], fmt), fmt)
    assert np.isfinite(got).all()
    np.testing.assert_allclose(got, want, atol=0 if size < 1e-9 else size / 5)


@BLOCKS
def test_halfway_and_opposite_numbers(either: OpenCLBackend, fmt: Format) -> None:
    """Exact quotients: halves go away from zero as in ggml; of two farthest the positive counts."""
    steps = 127 if fmt is Q8_0 else -8
    quotients = np.r_[steps, np.arange(-7.5, 8.0, 0.5)]
    x = np.stack([quotients, -quotients, np.zeros(32)]) * 0.25
    made = Operands()
    got = run(either, ops.cast(made.put(F32, x), fmt), made.values).reshape(3, -1)
    np.testing.assert_array_equal(got, packed(x, fmt))
    ends = np.zeros((1, 32))
    ends[0, [3, 9]] = 2.0, -2.0
    values = exact(run(either, ops.cast(made.put(F32, ends), fmt), made.values)[None], fmt)
    assert values[0, 3] == pytest.approx(2.0, rel=1e-3)
    assert values[0, 9] == pytest.approx(-2.0, rel=0.13)


@BLOCKS
@pytest.mark.parametrize("target", [F32, F16, BF16], ids=str)
def test_cast_from_blocks(either: OpenCLBackend, fmt: Format, target: Format) -> None:
    """Of a view: the first cells of a longer cache, its heads as a dimension."""
    made = Operands()
    whole = cache(made, fmt, 192, 21)
    head = fmt.row_bytes(64)
    x = whole.view(0, (64, 3, 19), (head, whole.strides[1]))
    got = run(either, ops.cast(x, target), made.values)[0]
    want = exact(made.values[whole], fmt)[:19].reshape(19, 3, 64)
    stored = to_bf16(want) if target is BF16 else want.astype(str(target.dtype))
    np.testing.assert_array_equal(got, stored)


@BLOCKS
@pytest.mark.parametrize("ids_fmt", [I32, I64], ids=str)
def test_scatter(either: OpenCLBackend, fmt: Format, ids_fmt: Format) -> None:
    """Strided values; -1 and ids outside write nothing."""
    made = Operands()
    target, whole = cache(made, fmt, 192, 21), made.make(F32, 300, 6)
    values = whole.view(80, (192, 6), whole.strides[1:2])
    ids = np.array([20, -1, 3, 0, 21, 1 << 20])
    got = run(either, ops.set_rows(target, values, made.put(ids_fmt, ids)), made.values)
    want = made.values[target].copy()
    written = packed(made.values[whole][:, 20:212], fmt)
    for row, i in enumerate(ids):
        if 0 <= i < 21:
            want[i] = written[row]
    got = got.reshape(21, -1)
    np.testing.assert_array_equal(np.delete(got, ids[[0, 2, 3]], 0), want[[1, 2, *range(4, 20)]])
    assert_same_blocks(got[[20, 3, 0]], want[[20, 3, 0]], fmt)


@BLOCKS
def test_scatter_into_every_plane(either: OpenCLBackend, fmt: Format) -> None:
    made = Operands()
    target, values = cache(made, fmt, 64, 9, 4, 3), made.make(F32, 64, 5, 4, 3)
    picks = np.stack([made.rng.permutation(9)[:5] for _ in range(6)]).reshape(3, 2, 5)
    got = run(either, ops.set_rows(target, values, made.put(I64, picks)), made.values)
    got, want = got.reshape(3, 4, 9, -1), made.values[target].reshape(3, 4, 9, -1).copy()
    for i3, i2, i in np.ndindex(3, 4, 5):
        want[i3, i2, picks[i3, i2 % 2, i]] = packed(made.values[values][i3, i2, i], fmt)
    assert_same_blocks(got, want, fmt)


def check_attention(
    backend: OpenCLBackend, fmt: Format, mask: str, sizes: Sizes, softcap: float, sunk: bool
) -> None:
    made = Operands()
    q = made.make(F32, sizes.dim, sizes.heads, sizes.tokens)
    spans, cells = visibility(mask, sizes, made.rng)
    caches, held = [], []
    for dim in (sizes.dim, sizes.dim_v):
        whole = cache(made, fmt, dim * sizes.kv_heads, sizes.cells + 2)
        shape, steps = (dim, sizes.kv_heads, sizes.cells), (fmt.row_bytes(dim), whole.strides[1])
        caches.append(whole.view(0, shape, steps))
        numbers = exact(made.values[whole], fmt)[: sizes.n_kv]
        held.append(numbers.reshape(sizes.n_kv, sizes.kv_heads, dim))
        free = (cells[:, 0] & np.bitwise_or.reduce(spans[:, 0])) == 0
        free |= np.arange(sizes.cells) >= sizes.n_kv
        made.values[whole][: sizes.cells][free] = 0xFF  # scales that are not numbers
    sinks = made.make(F32, sizes.heads, spread=3.0) if sunk else None
    scale = float(np.float32(sizes.dim**-0.5 * 5))  # random blocks are small numbers
    node = ops.attention(
        q,
        *caches,
        made.put(I32, spans),
        made.put(I32, cells),
        made.put(I32, np.array([sizes.n_kv])),
        scale=scale,
        softcap=softcap,
        sinks=sinks,
    )
    levels = None if sinks is None else made.exact(sinks)[0, 0, 0]
    seen = cells[: sizes.n_kv]
    want = attended(made.exact(q)[0], *held, spans, seen, scale, softcap, levels)
    got = run(backend, node, made.values)[0]
    assert nmse(got, want) < 1e-11 if want.any() else not got.any()


WHOLE = [s for s in SIZES if s.dim % 32 == 0 and s.dim_v % 32 == 0]
CASES = [(sizes, "causal") for sizes in WHOLE] + [(WHOLE[1], mask) for mask in MASKS]


@pytest.mark.sampled(5)
@BLOCKS
@pytest.mark.parametrize(("sizes", "mask"), dict.fromkeys(CASES), ids=str)
def test_attention(either: OpenCLBackend, fmt: Format, sizes: Sizes, mask: str) -> None:
    check_attention(either, fmt, mask, sizes, 0.0, sunk=False)


@BLOCKS
def test_attention_with_softcap_and_sinks(either: OpenCLBackend, fmt: Format) -> None:
    check_attention(either, fmt, "window", WHOLE[1], 2.0, sunk=True)


HEADS = [
    Heads(1),
    Heads(70, neox=False, heads=9, kv_heads=3),
    Heads(8, dim=256, dim_v=96, n_rot=256, heads=4, kv_heads=1, normed=True),
    Heads(3, dim=96, dim_v=32, n_rot=40, normed=True),
    Heads(3, dim=96, dim_v=32, n_rot=40, neox=False),
    Heads(2, cells=2048, normed=True),
]


@pytest.mark.sampled(3)
@BLOCKS
@pytest.mark.parametrize("sizes", HEADS, ids=str)
def test_rope_and_both_writes_in_one_launch(
    either: OpenCLBackend, fmt: Format, sizes: Heads
) -> None:
    """The same bytes as from single operations, but for numbers halfway between two."""
    made = Operands()
    parts = Attention(made, sizes)
    s = sizes
    parts.k_cache = cache(made, fmt, s.kv_heads * s.dim, s.cells + 3)
    parts.v_cache = cache(made, fmt, s.kv_heads * s.dim_v, s.cells + 3)
    keys = parts.stored(parts.k_cache, parts.roped(parts.k, parts.norms[1]))
    values = parts.stored(parts.v_cache, parts.v)
    mixed = parts.mixed(parts.roped(parts.q, parts.norms[0]), keys, values)
    wanted = [mixed, keys, values]
    single = attended_ops(either, mixed)
    at_once = s.tokens == 1 and not either.info.traits.items_take_vectors
    stored = [] if at_once else [Op.ROPE_STORE]
    assert lowered_ops(either, wanted, wanted) == [*stored, *single]
    want = run_all(either, wanted, made.values)
    got = run_all(either, wanted, made.values, fused=True)
    assert nmse(got[0], want[0]) < 1e-5
    for new, old in zip(got[1:], want[1:], strict=True):
        assert_same_blocks(new.reshape(s.cells + 3, -1), old.reshape(s.cells + 3, -1), fmt)
