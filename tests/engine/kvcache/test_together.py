"""Cells of several sequences in one step, against a dict from sequence to positions; pages."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import ContextFull, NotSupported
from engine.gguf.formats import F16
from engine.kvcache.causal import BITS, PAGE, POSITION, CausalCache
from engine.kvcache.group import CacheGroup
from engine.models.kept import CHECKPOINTS, Cells, State, make_caches, make_states

WINDOW = 6
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("step"), st.dictionaries(st.integers(0, 4), st.integers(1, 40))),
        st.tuples(st.just("cut"), st.integers(0, 4), st.integers(0, 40)),
        st.tuples(st.just("shift"), st.integers(0, 4), st.integers(0, 9), st.integers(1, 9)),
        st.tuples(st.just("share"), st.integers(0, 4), st.integers(0, 4), st.integers(1, 40)),
    ),
    max_size=14,
)


def held(cache: CausalCache, sequence: int) -> list[int]:
    mine = (cache.cells[:, BITS] >> sequence & 1) != 0
    return sorted(cache.cells[mine, POSITION].tolist())


@settings(max_examples=100, deadline=None)
@given(acts=ACTS, n_cells=st.sampled_from([70, 256]))
def test_no_cell_is_lost_and_none_is_seen_by_another(acts: list[tuple], n_cells: int) -> None:
    """After any steps of many, cuts, shifts and shared prefixes each sequence sees its positions,
    each once; a cell of nobody is free, and what is refused changes nothing.
    """
    cache = CausalCache(n_cells)
    length = dict.fromkeys(range(5), 0)
    for act in acts:
        match act:
            case ("step", counts):
                _step(cache, length, counts)
            case ("cut", sequence, at):
                cache.remove(sequence, at)
                length[sequence] = min(length[sequence], at)
            case ("shift", sequence, begin, n):
                end = min(begin + n, length[sequence])
                if begin < end:
                    _shift(cache, length, sequence, begin, end)
            case ("share", sequence, source, end):
                if sequence != source:
                    cache.remove(sequence, 0)
                    cache.share(sequence, source, end)
                    length[sequence] = min(end, length[source])
        for sequence, n in length.items():
            assert held(cache, sequence) == list(range(n))
        used = np.flatnonzero(cache.cells[:, BITS])
        assert cache.n_free == n_cells - len(used)
        assert cache.n_kv == (used[-1] + 1 if len(used) else 0)
        assert (cache.cells[cache.cells[:, BITS] == 0, POSITION] == -1).all()


def _step(cache: CausalCache, length: dict[int, int], counts: dict[int, int]) -> None:
    if not counts:
        return
    owners = np.repeat(list(counts), list(counts.values())).astype(np.int32)
    positions = np.concatenate([length[s] + np.arange(n) for s, n in counts.items()])
    try:
        step = cache.start(positions.astype(np.int32), owners)
    except ContextFull:
        assert cache.n_free < len(owners)
        return
    assert len(set(step.ids.tolist())) == len(owners)
    for sequence, n in counts.items():
        length[sequence] += n
    for owner, position, (bit, low, high, _) in zip(owners, positions, step.spans, strict=True):
        assert (bit, low, high) == (1 << owner, 0, position)


def _shift(cache: CausalCache, length: dict[int, int], s: int, begin: int, end: int) -> None:
    before = cache.cells.copy()
    try:
        cache.remove(s, begin, end)
    except NotSupported:
        np.testing.assert_array_equal(cache.cells, before)
        moved = (before[:, BITS] >> s & 1 != 0) & (before[:, POSITION] >= end)
        assert (before[moved, BITS] != 1 << s).any()
        return
    length[s] -= end - begin


def test_sequences_keep_to_their_own_pages() -> None:
    """As they grow in turn, token by token; low pages are taken first."""
    cache = CausalCache(8 * PAGE)
    for at in range(PAGE + 10):
        cache.start(np.full(3, at, np.int32), np.arange(3, dtype=np.int32))
    pages = cache.cells[: cache.n_kv, BITS].reshape(-1)
    for first in range(0, cache.n_kv, PAGE):
        assert len(set(pages[first : first + PAGE].tolist()) - {0}) == 1
    assert cache.n_kv <= 6 * PAGE


def test_whoever_goes_on_from_a_shared_prefix_takes_a_page_of_its_own() -> None:
    cache = CausalCache(4 * PAGE)
    cache.start(np.arange(10, dtype=np.int32), 0)
    cache.share(1, 0, 8)
    ids = cache.start(np.array([8, 9], np.int32), 1).ids
    assert ids.tolist() == [PAGE, PAGE + 1]
    assert cache.start(np.array([10], np.int32), 0).ids.tolist() == [10]  # it was there already


def test_when_pages_run_out_any_cell_will_do() -> None:
    cache = CausalCache(2 * PAGE)
    cache.start(np.zeros(2, np.int32), np.arange(2, dtype=np.int32))  # a page each
    step = cache.start(np.arange(2 * PAGE - 2, dtype=np.int32), 2)
    assert cache.n_free == 0
    assert len(set(step.ids.tolist())) == 2 * PAGE - 2


def test_windows_of_many_fit_and_each_sees_its_own() -> None:
    """So many cells as are reserved for so many sequences are enough, however long they get."""
    n, batch = 4, 3
    caches, _ = make_caches([Cells(32, 32, 1, None, WINDOW)], 4096, batch, F16, n, 9000)
    (cache,) = caches.caches
    cache = CausalCache(n * WINDOW + batch, WINDOW)  # to the cell, not rounded up
    length = [0] * n
    for turn in range(60):
        counts = {turn % n: batch} if turn % 2 else dict.fromkeys(range(batch), 1)
        owners = np.repeat(list(counts), list(counts.values())).astype(np.int32)
        positions = np.concatenate([length[s] + np.arange(k) for s, k in counts.items()])
        cache.start(positions.astype(np.int32), owners)
        for s, k in counts.items():
            length[s] += k
        for s in range(n):
            assert set(range(max(0, length[s] - WINDOW + 1), length[s])) <= set(held(cache, s))


def test_a_step_of_many_that_fails_half_way_is_forgotten_by_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = CacheGroup([CausalCache(64), CausalCache(64)])
    group.start(np.arange(3, dtype=np.int32), 0)
    monkeypatch.setattr(group.caches[1], "_spans", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        group.start(np.array([3, 0, 1], np.int32), np.array([0, 5, 5], np.int32))
    for cache in group.caches:
        assert (held(cache, 0), held(cache, 5)) == ([0, 1, 2], [])


def test_room_for_many_is_counted() -> None:
    kept = [Cells(32, 32, 1, None), Cells(32, 32, 1, None, 100), State(8, 4, 64)]
    caches, _ = make_caches(kept, 1000, 512, F16, 3, 5000)
    assert [cache.n_cells for cache in caches.caches] == [5120, 1024]  # 3 * 100 + 512
    assert caches.states.n_slots == 3 * 2 + CHECKPOINTS
    leaves = [leaf for state in make_states(kept, 3) if state for leaf in state.leaves]
    assert [leaf.shape[1] for leaf in leaves] == [3 * 2 + CHECKPOINTS] * 2
