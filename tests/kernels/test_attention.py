"""Fused attention and softmax against float64 in NumPy, over every kind of mask."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.backends.opencl.backend import OpenCLBackend
from engine.gguf.formats import F16, F32, I32, Format
from engine.graph import ops
from engine.graph.tensor import Tensor
from tests.kernels.harness import nmse, run
from tests.kernels.values import Floats, Operands

Ints = NDArray[np.int64]
MASKS = ["causal", "window", "all", "padded", "two sequences", "nothing"]


@dataclass(frozen=True)
class Sizes:
    """Heads, kv heads, head sizes of k and v, queries, cells, and how many of these count."""

    heads: int
    kv_heads: int
    dim: int
    dim_v: int
    tokens: int
    cells: int
    n_kv: int


SIZES = [
    Sizes(9, 3, 64, 64, 1, 256, 200),
    Sizes(9, 3, 64, 64, 7, 600, 600),
    Sizes(4, 1, 256, 256, 2, 256, 31),
    Sizes(4, 1, 256, 256, 64, 600, 555),
    Sizes(2, 2, 40, 24, 1, 31, 31),
    Sizes(6, 2, 33, 17, 7, 256, 256),
    Sizes(8, 1, 128, 128, 1, 1, 1),
    Sizes(8, 4, 16, 16, 64, 31, 30),
    Sizes(1, 1, 5, 3, 2, 600, 513),
    Sizes(9, 3, 64, 64, 64, 256, 64),
    Sizes(3, 1, 32, 32, 1, 2048, 70),
    # In decode a group of a CPU makes all heads of its cells.
    Sizes(9, 3, 64, 64, 1, 4096, 4001),
    Sizes(16, 2, 40, 24, 1, 2048, 1990),
    Sizes(6, 2, 33, 17, 2, 2048, 1030),
]
CASES = [(sizes, mask) for sizes in (SIZES[1], SIZES[5], SIZES[7], SIZES[13]) for mask in MASKS]
CASES += [(sizes, mask) for sizes in SIZES for mask in ("causal", "two sequences")]


def visibility(mask: str, sizes: Sizes, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """`spans` [T, 4] and `cells` [C, 2] as a cache would give them: the queries come last."""
    cells = np.zeros((sizes.cells, 2), np.int64)
    cells[: sizes.n_kv] = np.stack([np.ones(sizes.n_kv), np.arange(sizes.n_kv)], axis=1)
    cells[sizes.n_kv :] = 1  # beyond n_kv: must not be looked at
    spans = np.zeros((sizes.tokens, 4), np.int64)
    last = np.arange(sizes.tokens) + max(0, sizes.n_kv - sizes.tokens)
    spans[:, 0], spans[:, 2], spans[:, 3] = 1, last, last
    if mask == "window":
        spans[:, 1] = last - 9
    elif mask == "all":
        spans[:, 2] = sizes.n_kv
    elif mask == "padded":
        spans[sizes.tokens // 2 :, 0] = 0
        cells[: sizes.n_kv : 3, 0] = 0
    elif mask == "two sequences":
        cells[: sizes.n_kv, 0] = rng.integers(1, 4, sizes.n_kv)
        spans[:, 0] = rng.integers(1, 3, sizes.tokens)
        rng.shuffle(cells[: sizes.n_kv])
    elif mask == "nothing":
        spans[:, 1], spans[:, 2] = 1 << 29, (1 << 30)
    return spans, cells


def seen_by(spans: Ints, cells: Ints) -> NDArray[np.bool_]:
    """[T, C]"""
    shared = (spans[:, None, 0] & cells[None, :, 0]) != 0
    late = cells[None, :, 1] >= spans[:, None, 1]
    return shared & late & (cells[None, :, 1] <= spans[:, None, 2])


def weights(scores: Floats, seen: NDArray[np.bool_], sinks: Floats | None) -> Floats:
    """Softmax of [H, T, C] over what is seen, zeros where that is nothing; a sink a head."""
    masked = np.where(seen, scores, -np.inf)
    top = masked.max(-1, keepdims=True, initial=-1e300)
    if sinks is not None:
        top = np.maximum(top, sinks[:, None, None])
    exps = np.exp(masked - top)
    total = exps.sum(-1, keepdims=True)
    if sinks is not None:
        total = total + np.exp(sinks[:, None, None] - top)
    return np.divide(exps, total, out=np.zeros_like(exps), where=total > 0)


def falls_of(heads: int, most: float, spans: Ints, cells: Ints) -> Floats:
    """[H, T, C]: what scores lose with the distance, by the paper's two runs of slopes."""
    n = 2 ** int(np.log2(heads))
    slopes = [2 ** (-most / n * (i + 1)) for i in range(n)]
    slopes += [2 ** (-most / (2 * n) * (2 * i + 1)) for i in range(heads - n)]
    distances = np.abs(spans[:, None, 3] - cells[None, :, 1])
    return np.array(slopes)[:, None, None] * distances


def attended(
    q: Floats,
    k: Floats,
    v: Floats,
    spans: Ints,
    cells: Ints,
    scale: float,
    softcap: float,
    sinks: Floats | None,
    alibi: float = 0.0,
) -> Floats:
    """[T, H, Dv] of q [T, H, D], k [C, K, D], v [C, K, Dv]."""
    group = q.shape[1] // k.shape[1]
    scores = scale * (q.transpose(1, 0, 2) @ k.repeat(group, 1).transpose(1, 2, 0))
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    if alibi:
        scores = scores - falls_of(q.shape[1], alibi, spans, cells)
    shares = weights(scores, seen_by(spans, cells), sinks)
    return (shares @ v.repeat(group, 1).transpose(1, 0, 2)).transpose(1, 0, 2)


def cache_of(made: Operands, fmt: Format, dim: int, sizes: Sizes) -> Tensor:
    """[D, K, C], a view of the first cells of a longer cache [D K, C + 2]."""
    leaf = made.make(fmt, dim * sizes.kv_heads, sizes.cells + 2)
    rows = leaf.view(0, (dim * sizes.kv_heads, sizes.cells), leaf.strides[1:2])
    return rows.reshape(dim, sizes.kv_heads, sizes.cells)


def check(
    backend: OpenCLBackend,
    mask: str,
    sizes: Sizes,
    fmt: Format = F16,
    softcap: float = 0.0,
    with_sinks: bool = False,
    spread: float = 1.0,
    latent: bool = False,
    apart: int = 5,
    most: float = 1e-11,
    alibi: float = 0.0,
) -> None:
    """Where it is `latent`, values are the last channels of the keys, as MLA keeps them. Queries
    begin at a row's number `apart`.
    """
    made = Operands()
    whole = made.make(F32, sizes.dim * sizes.heads + 2 * apart, sizes.tokens, spread=spread)
    q = whole.view(
        4 * apart, (sizes.dim, sizes.heads, sizes.tokens), (sizes.dim * 4, whole.strides[1])
    )
    k = cache_of(made, fmt, sizes.dim, sizes)
    if latent:
        offset = fmt.row_bytes(sizes.dim - sizes.dim_v)
        v = k.window(offset, (sizes.dim_v, sizes.kv_heads, sizes.cells), k.strides)
    else:
        v = cache_of(made, fmt, sizes.dim_v, sizes)
    spans, cells = visibility(mask, sizes, made.rng)
    free = (cells[:, 0] & np.bitwise_or.reduce(spans[:, 0])) == 0
    free |= np.arange(sizes.cells) >= sizes.n_kv
    for cache in (k, v):  # what belongs to nobody may hold anything
        made.values[cache.storage][: sizes.cells][free] = np.nan
    sinks = made.make(F32, sizes.heads, spread=3.0) if with_sinks else None
    scale = sizes.dim**-0.5
    node = ops.attention(
        q,
        k,
        v,
        made.put(I32, spans),
        made.put(I32, cells),
        made.put(I32, np.array([sizes.n_kv])),
        scale=scale,
        softcap=softcap,
        sinks=sinks,
        alibi=alibi,
    )
    want = attended(
        made.exact(q)[0],
        np.nan_to_num(made.exact(k)[0, : sizes.n_kv]),
        np.nan_to_num(made.exact(v)[0, : sizes.n_kv]),
        spans,
        cells[: sizes.n_kv],
        np.float64(np.float32(scale)),
        softcap,
        None if sinks is None else made.exact(sinks)[0, 0, 0],
        alibi,
    )
    got = run(backend, node, made.values)[0]
    assert got.shape == want.shape
    assert nmse(got, want) < most if want.any() else not got.any()


@pytest.mark.parametrize(("sizes", "mask"), dict.fromkeys(CASES), ids=str)
def test_attention(either: OpenCLBackend, sizes: Sizes, mask: str) -> None:
    check(either, mask, sizes)


@pytest.mark.parametrize("sizes", [*SIZES[:3], SIZES[4], *SIZES[6:8], *SIZES[-3:]], ids=str)
def test_rows_that_begin_at_whole_loads(either: OpenCLBackend, sizes: Sizes) -> None:
    """Lanes read eight halves of keys and values at once, and take eight channels where all of a
    group have some.
    """
    check(either, "causal", sizes, apart=4)
    check(either, "two sequences", sizes, apart=4, with_sinks=True)


@pytest.mark.parametrize("sizes", [*SIZES[1:4], *SIZES[-2:]], ids=str)
def test_softcap_and_sinks(either: OpenCLBackend, sizes: Sizes) -> None:
    check(either, "causal", sizes, softcap=5.0)
    check(either, "padded", sizes, with_sinks=True)
    check(either, "nothing", sizes, with_sinks=True)
    check(either, "window", sizes, softcap=20.0, with_sinks=True)


@pytest.mark.each_value
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("mask", ["causal", "window", "all", "padded", "two sequences"])
def test_scores_that_fall_with_the_distance(either: OpenCLBackend, sizes: Sizes, mask: str) -> None:
    check(either, mask, sizes, alibi=8.0)
    if mask == "causal":
        check(either, mask, sizes, alibi=3.0, softcap=5.0, with_sinks=True)


LATENTS = [
    Sizes(128, 1, 576, 512, 1, 512, 400),  # DeepSeek-V3
    Sizes(16, 1, 576, 512, 2, 2048, 1990),
    Sizes(5, 1, 24, 16, 7, 256, 200),
    Sizes(4, 1, 24, 16, 64, 256, 70),
]


@pytest.mark.each_value
@pytest.mark.parametrize("sizes", LATENTS, ids=str)
def test_values_that_are_a_part_of_the_keys(either: OpenCLBackend, sizes: Sizes) -> None:
    check(either, "causal", sizes, latent=True)
    check(either, "two sequences", sizes, fmt=F32, latent=True)


@pytest.mark.full
def test_a_prompt_of_latents(either: OpenCLBackend) -> None:
    check(either, "causal", Sizes(128, 1, 576, 512, 64, 512, 300), latent=True)


@pytest.mark.parametrize("sizes", [*SIZES[1:6], SIZES[-1]], ids=str)
def test_f32_cache_and_sharp_scores(either: OpenCLBackend, sizes: Sizes) -> None:
    check(either, "causal", sizes, fmt=F32)
    check(either, "window", sizes, spread=40.0)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("sizes", "with_sinks"), [(SIZES[1], True), (SIZES[4], False)])
def test_softmax(either: OpenCLBackend, sizes: Sizes, with_sinks: bool, mask: str) -> None:
    made = Operands()
    shape = (sizes.cells, sizes.tokens, sizes.heads)
    scores = made.make(F32, shape[0], shape[2], shape[1], spread=6.0).permute(0, 2, 1)
    spans, cells = visibility(mask, sizes, made.rng)
    sinks = made.make(F32, sizes.heads) if with_sinks else None
    seen = made.put(I32, spans), made.put(I32, cells)
    sink = None if sinks is None else made.exact(sinks)[0, 0, 0]
    for alibi in (0.0, 8.0):
        node = ops.softmax(scores, *seen, scale=0.5, softcap=4.0, sinks=sinks, alibi=alibi)
        exact = 4.0 * np.tanh(0.5 * made.exact(scores)[0] / 4.0)
        if alibi:
            exact = exact - falls_of(sizes.heads, alibi, spans, cells)
        want = weights(exact, seen_by(spans, cells), sink)
        got = run(either, node, made.values)[0]
        assert nmse(got, want) < 1e-11 if want.any() else not got.any()


@pytest.mark.parametrize("width", [1, 15, 600])
def test_softmax_without_a_mask(either: OpenCLBackend, width: int) -> None:
    made = Operands()
    scores = made.make(F32, width, 3, 2)
    want = weights(made.exact(scores)[0], np.ones((3, width), bool), None)
    assert nmse(run(either, ops.softmax(scores), made.values)[0], want) < 1e-11


MASK_SHAPES = [(1, 1), (3, 1), (6, 2), (1, 2)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("fmt", [F32, F16], ids=str)
@pytest.mark.parametrize("planes", MASK_SHAPES, ids=str)
@pytest.mark.parametrize("width", [5, 64, 600])
def test_softmax_with_a_mask_tensor(
    either: OpenCLBackend, width: int, planes: tuple[int, int], fmt: Format
) -> None:
    """[C, T or more], repeated over heads; added behind scale and cap; some rows see nothing."""
    made = Operands()
    scores, sinks = made.make(F32, width, 7, 6, 2, spread=6.0), made.make(F32, 6)
    numbers = made.rng.standard_normal((planes[1], planes[0], 9, width + 3))
    numbers[made.rng.random(numbers.shape) < 0.4] = -np.inf
    numbers[..., 2, :] = numbers[..., 5, :] = -np.inf
    whole = made.put(fmt, numbers)
    mask = whole.view(2 * fmt.bytes, (width, 9, *planes), whole.strides[1:])
    for sink, cap in ((None, 0.0), (None, 4.0), (sinks, 4.0)):
        node = ops.softmax(scores, mask=mask, scale=0.5, softcap=cap, sinks=sink)
        exact = 0.5 * made.exact(scores)
        exact = cap * np.tanh(exact / cap) if cap else exact
        added = np.tile(made.exact(mask)[:, :, :7], (2 // planes[1], 6 // planes[0], 1, 1))
        levels = None if sink is None else made.exact(sinks)[0, 0, 0]
        want = [weights(exact[i] + added[i], np.array(True), levels) for i in range(2)]
        got = run(either, node, made.values)
        assert nmse(got, np.stack(want)) < 1e-11
        assert not got[:, :, [2, 5]].any()


def test_attention_without_a_cache(either: OpenCLBackend) -> None:
    """The contract's single operations: the mask added to the scores, grouped heads, sinks."""
    made = Operands()
    q, k, v = made.make(F32, 40, 6, 9), made.make(F16, 40, 2, 33), made.make(F16, 24, 2, 33)
    seen = made.rng.random((9, 33)) < 0.6
    seen[4] = False
    mask, sinks = made.put(F16, np.where(seen, 0, -np.inf)), made.make(F32, 6)
    for sink in (None, sinks):
        node = ops.masked_attention(q, k, v, mask, scale=0.3, sinks=sink)
        scores = 0.3 * np.einsum("thd,chd->htc", made.exact(q)[0], made.exact(k)[0].repeat(3, 1))
        shares = weights(scores, seen, None if sink is None else made.exact(sinks)[0, 0, 0])
        want = np.einsum("htc,chd->thd", shares, made.exact(v)[0].repeat(3, 1))
        got = run(either, node, made.values)[0]
        assert nmse(got, want) < 1e-11
        assert not got[4].any()


@pytest.mark.parametrize(
    ("cells", "n_kv", "window"),
    [(2048, 1500, 0), (512, 500, 0), (768, 700, 300), (2048, 1500, 700)],
)
@pytest.mark.parametrize(("heads", "kv_heads"), [(9, 3), (4, 1)])
def test_a_token_gives_the_same_bits_alone_and_among_others(
    backend: OpenCLBackend, heads: int, kv_heads: int, cells: int, n_kv: int, window: int
) -> None:
    """On CPUs, where a draft's tokens are cut as one is; a window begins within a page."""
    made, dim = Operands(3), 64
    k, v = (made.make(F16, dim, kv_heads, cells) for _ in range(2))
    x = made.rng.standard_normal((9, heads, dim)).astype(np.float32)
    at = n_kv - 9 + np.arange(9)
    spans = np.stack([np.ones(9), np.maximum(at - window + 1, 0) * (window > 0), at, 0 * at], 1)
    held = np.stack([np.ones(cells), np.arange(cells)], axis=1)

    def made_by(first: int, last: int) -> NDArray[np.float32]:
        q = made.put(F32, x[first:last])
        given = (made.put(I32, spans[first:last]), made.put(I32, held))
        used = made.put(I32, np.array([int(at[last - 1]) + 1]))
        node = ops.attention(q, k, v, *given, used, scale=dim**-0.5)
        return run(backend, node, made.values)[0]

    alone = np.concatenate([made_by(i, i + 1) for i in range(9)])
    for n in (2, 4, 9):
        np.testing.assert_array_equal(made_by(0, n), alone[:n], f"{n} tokens")
