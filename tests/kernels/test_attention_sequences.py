"""Attention of several sequences in one step, whose cells lie in pages of their own. Pages of which
a tile's queries see nothing hold what is not a number: whoever reads them anyway is found out.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.backends.host.backend import HostBackend
from engine.backends.opencl.backend import OpenCLBackend
from engine.device.backend import Backend
from engine.gguf.formats import F16, F32, I32
from engine.graph import ops
from tests.kernels.harness import nmse, run
from tests.kernels.test_attention import Ints, Sizes, attended, cache_of
from tests.kernels.values import Operands

PAGE = 64


@dataclass(frozen=True)
class Mix:
    """Tokens that each sequence brings, cells that each sees, pages before that all share, and the
    window of positions.
    """

    tokens: tuple[int, ...]
    depth: int
    shared: int = 0
    window: int = 0


DECODE = Mix((1, 1, 1, 1), 150)
SHARED = Mix((1, 1, 1), 200, shared=2)
WINDOW = Mix((1, 2, 1, 1, 1), 300, window=90)
MIXED = Mix((1, 1, 1, 30, 1, 1), 130)
PROMPTS = Mix((40, 50, 31), 140, shared=1)

# Heads, kv heads and their sizes.
TOKENS_APART = [(9, 3, 64, 64), (8, 2, 64, 32), (8, 1, 32, 32)]
"""A tile has queries of one token."""

TOKENS_TOGETHER = [(4, 4, 64, 64), (4, 2, 40, 24), (5, 1, 32, 16)]
"""A tile has queries of several, perhaps of as many sequences."""

MIXES = {
    "decode": DECODE,
    "shared": SHARED,
    "window": WINDOW,
    "mixed": MIXED,
    "prompts": PROMPTS,
}


def laid_out(mix: Mix) -> tuple[Ints, Ints]:
    """`spans` [T, 4] and `cells` [C, 2]: shared pages first, then a page of each sequence by turns,
    the last ones not full; every ninth cell is free.
    """
    n, everybody = len(mix.tokens), (1 << len(mix.tokens)) - 1
    common, own = mix.shared * PAGE, mix.depth - mix.shared * PAGE
    pages = -(-own // PAGE)
    cells = np.zeros((common + n * pages * PAGE, 2), np.int64)
    cells[:common] = np.stack([np.full(common, everybody), np.arange(common)], 1)
    spans = []
    for i, count in enumerate(mix.tokens):
        at = np.arange(own)
        held = common + (at // PAGE * n + i) * PAGE + at % PAGE
        cells[held] = np.stack([np.full(own, 1 << i), common + at], 1)
        last = np.arange(mix.depth - count, mix.depth)
        first = np.maximum(last - mix.window + 1, 0) if mix.window else 0 * last
        spans.append(np.stack([np.full(count, 1 << i), first, last, 0 * last], 1))
    cells[4::9] = 0
    return np.concatenate(spans), cells


def unseen(spans: Ints, cells: Ints, bit: int) -> NDArray[np.bool_]:
    """Cells [C] of pages in which a sequence sees nothing."""
    mine = spans[spans[:, 0] == bit]
    low, high = mine[:, 1].min(), mine[:, 2].max()
    seen = ((cells[:, 0] & bit) != 0) & (cells[:, 1] >= low) & (cells[:, 1] <= high)
    pages = np.add.reduceat(seen, np.arange(0, len(cells), PAGE)) > 0
    return ~pages.repeat(PAGE)[: len(cells)]


def check(
    backend: Backend, heads: tuple[int, int, int, int], mix: Mix, *, alone: bool, free: float
) -> None:
    """Each sequence's results; where it is `alone`, pages that it does not see are no numbers.
    `free` is what cells hold that belong to nobody.
    """
    spans, cells = laid_out(mix)
    sizes = Sizes(*heads, len(spans), len(cells), len(cells))
    made = Operands()
    q = made.make(F32, sizes.dim, sizes.heads, sizes.tokens)
    k, v = (cache_of(made, F16, dim, sizes) for dim in (sizes.dim, sizes.dim_v))
    seen = (made.put(I32, spans), made.put(I32, cells), made.put(I32, np.array([sizes.n_kv])))
    scale = sizes.dim**-0.5
    node = ops.attention(q, k, v, *seen, scale=scale)
    exact = [made.exact(t)[0] for t in (q, k, v)]
    want = attended(*exact, spans, cells, np.float64(np.float32(scale)), 0.0, None)
    whole = {t.storage: made.values[t.storage].copy() for t in (k, v)}
    for i in (0, len(mix.tokens) - 1) if alone else (0,):
        for leaf, values in whole.items():
            made.values[leaf][:] = values
            held = made.values[leaf][: sizes.cells]
            held[cells[:, 0] == 0] = free
            if alone:
                held[unseen(spans, cells, 1 << i)] = np.nan
        rows = spans[:, 0] == 1 << i if alone else slice(None)
        got = run(backend, node, made.values)[0]
        assert nmse(got[rows], want[rows]) < 1e-11


@pytest.mark.parametrize("heads", TOKENS_APART, ids=str)
@pytest.mark.parametrize("name", MIXES)
def test_nothing_of_others_is_read(
    either: OpenCLBackend, name: str, heads: tuple[int, int, int, int]
) -> None:
    check(either, heads, MIXES[name], alone=True, free=np.nan)


@pytest.mark.parametrize("heads", TOKENS_TOGETHER, ids=str)
@pytest.mark.parametrize("name", MIXES)
def test_tiles_with_several_sequences(
    either: OpenCLBackend, name: str, heads: tuple[int, int, int, int]
) -> None:
    """Items that take vectors make only the rows that see some of a page."""
    alone = either.info.traits.items_take_vectors
    check(either, heads, MIXES[name], alone=alone, free=np.nan)


@pytest.mark.parametrize("name", MIXES)
def test_host(name: str) -> None:
    check(HostBackend(), TOKENS_APART[0], MIXES[name], alone=False, free=9.0)
