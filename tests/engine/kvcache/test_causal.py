"""Cells against a brute-force model: a dict from sequence to the positions it holds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import ContextFull, NotSupported
from engine.kvcache.causal import BITS, POSITION, CausalCache
from engine.kvcache.group import CacheGroup


def visible(cache: CausalCache, span: np.ndarray) -> list[int]:
    """Positions of the cells that a query of this span sees, by the rule of `ops.attention`."""
    bit, low, high, _ = span
    cells = cache.cells
    seen = ((cells[:, BITS] & bit) != 0) & (cells[:, POSITION] >= low)
    return sorted(cells[seen & (cells[:, POSITION] <= high), POSITION].tolist())


def positions(begin: int, n: int) -> np.ndarray:
    return np.arange(begin, begin + n, dtype=np.int32)


@settings(max_examples=100, deadline=None)
@given(
    window=st.one_of(st.none(), st.integers(1, 12)),
    steps=st.lists(st.tuples(st.integers(0, 1), st.integers(1, 5)), max_size=12),
)
def test_every_query_sees_what_it_should(window: int | None, steps: list[tuple[int, int]]) -> None:
    cache = CausalCache(128, window)
    length = [0, 0]
    for sequence, n in steps:
        step = cache.start(positions(length[sequence], n), sequence)
        assert len(set(step.ids.tolist())) == n
        for i, span in enumerate(step.spans):
            p = length[sequence] + i
            first = 0 if window is None else max(0, p - window + 1)
            assert visible(cache, span) == list(range(first, p + 1))
        assert step.n_kv == max(np.flatnonzero(cache.cells[:, BITS])) + 1
        length[sequence] += n


@settings(max_examples=100, deadline=None)
@given(
    n=st.integers(2, 30),
    cut=st.tuples(st.integers(0, 29), st.integers(1, 10)),
    holes=st.integers(0, 5),
)
def test_removal_moves_what_follows(n: int, cut: tuple[int, int], holes: int) -> None:
    cache = CausalCache(64)
    cache.start(positions(0, max(1, holes)), 1)
    cache.start(positions(0, n), 0)
    cache.remove(1, 0)  # leaves free cells in front
    begin = min(cut[0], n - 1)
    end = min(begin + cut[1], n)
    before = cache.cells.copy()
    shift = cache.remove(0, begin, end)
    kept = [p for p in range(n) if not begin <= p < end]
    held = cache.cells[cache.cells[:, BITS] != 0, POSITION]
    assert sorted(held.tolist()) == list(range(len(kept)))
    if end == n:
        assert shift is None
    else:
        assert shift is not None
        live = cache.cells[:, BITS] != 0
        np.testing.assert_array_equal(before[live, POSITION] + shift[live], held)
        assert not shift[~live].any()


def test_full_cache_names_the_numbers_and_keeps_what_it_had() -> None:
    cache = CausalCache(8)
    cache.start(positions(0, 6), 0)
    with pytest.raises(ContextFull, match="3 tokens.*2; free of 8"):
        cache.start(positions(6, 3), 0)
    assert cache.n_kv == 6


def test_window_gives_up_only_unseen_cells_and_only_when_it_must() -> None:
    cache = CausalCache(8, window=4)
    cache.start(positions(0, 6), 0)
    assert cache.resumable(0, 3) == 3  # nothing was given up yet
    cache.start(positions(6, 4), 0)
    held = sorted(cache.cells[cache.cells[:, BITS] != 0, POSITION].tolist())
    assert held == [3, 4, 5, 6, 7, 8, 9]
    assert cache.resumable(0, 6) == 6
    assert cache.resumable(0, 4) < 4
    assert cache.resumable(0, 0) == 0


def test_idle_sequences_give_up_what_they_will_not_see() -> None:
    cache = CausalCache(16, window=4)
    cache.start(positions(0, 10), 1)
    cache.start(positions(0, 6), 0)
    cache.start(positions(6, 5), 0)  # room is needed, and sequence 1 has most of it
    assert held(cache, 1) == [7, 8, 9]  # what its next token, 10, sees
    assert held(cache, 0) == [3, 4, 5, 6, 7, 8, 9, 10]
    assert cache.resumable(1, 10) == 10
    assert cache.resumable(1, 9) < 9


def test_a_full_cache_resumes_only_behind_what_it_holds() -> None:
    cache = CausalCache(16)
    cache.start(positions(0, 6), 0)
    assert cache.resumable(0, 6) == 6
    assert cache.resumable(0, 3) == 3
    assert cache.resumable(0, 7) < 7
    assert cache.resumable(1, 1) < 1
    cache.start(positions(8, 2), 0)
    assert cache.resumable(0, 9) < 9  # 6 and 7 are missing


@pytest.mark.parametrize("window", [None, 4])
def test_a_step_that_fails_half_way_is_forgotten(
    window: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = CacheGroup([CausalCache(16), CausalCache(16, window)])
    group.start(positions(0, 3), 0)
    monkeypatch.setattr(group.caches[1], "_spans", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        group.start(positions(3, 2), 0)
    assert [held(cache, 0) for cache in group.caches] == [[0, 1, 2]] * 2
    assert [cache.n_kv for cache in group.caches] == [3, 3]


def held(cache: CausalCache, sequence: int) -> list[int]:
    mine = (cache.cells[:, BITS] & (1 << sequence)) != 0
    return sorted(cache.cells[mine, POSITION].tolist())


def test_group_takes_a_step_back_when_one_cache_is_full() -> None:
    large, small = CausalCache(32), CausalCache(4)
    group = CacheGroup([large, small])
    group.start(positions(0, 3), 0)
    with pytest.raises(ContextFull):
        group.start(positions(3, 2), 0)
    assert large.n_kv == small.n_kv == 3
    group.clear()
    assert large.n_kv == 0


def test_a_token_sees_its_chunk() -> None:
    cache = CausalCache(8, chunk=4)
    spans = cache.start(np.arange(6, dtype=np.int32), 0).spans
    np.testing.assert_array_equal(spans[:, 1], [0, 0, 0, 0, 4, 4])
    np.testing.assert_array_equal(spans[:, 2], np.arange(6))
    # What nobody will see again makes room: the first chunk.
    step = cache.start(np.arange(6, 9, dtype=np.int32), 0)
    np.testing.assert_array_equal(step.spans[:, 1], [4, 4, 8])
    assert set(cache.cells[cache.cells[:, 0] != 0, 1]) == {4, 5, 6, 7, 8}
    assert cache.resumable(0, 3) < 3
    cache.remove(0, 6)
    assert cache.resumable(0, 6) == 6


def test_tokens_stay_in_their_chunk() -> None:
    cache = CausalCache(8, chunk=4)
    cache.start(np.arange(6, dtype=np.int32), 0)
    with pytest.raises(NotSupported, match="from chunk to chunk"):
        cache.remove(0, 1, 3)
    assert (cache.cells[:, 0] != 0).sum() == 6
    cache.remove(0, 3)
    assert cache.resumable(0, 3) == 3


def test_tokens_of_learned_positions_stay_there() -> None:
    cache = CausalCache(8, movable=False)
    cache.start(np.arange(6, dtype=np.int32), 0)
    with pytest.raises(NotSupported, match="positions that were learned"):
        cache.remove(0, 1, 3)
    assert (cache.cells[:, 0] != 0).sum() == 6
    assert cache.remove(0, 3, 8) is None  # none is behind
    assert cache.resumable(0, 3) == 3


@settings(max_examples=100, deadline=None)
@given(
    sight=st.sampled_from([(None, None), (6, None), (None, 8)]),
    n=st.integers(1, 30),
    end=st.integers(0, 30),
    more=st.integers(0, 4),
)
def test_a_sequence_that_shares_cells_sees_them_and_leaves_them(
    sight: tuple[int | None, int | None], n: int, end: int, more: int
) -> None:
    cache = CausalCache(64, *sight)
    cache.start(positions(0, 3), 2)  # somebody else's, so that cells lie scattered
    cache.start(positions(0, n), 0)
    cache.remove(2, 1, None)
    before, state = cache.cells.copy(), (cache.n_kv, cache.n_free)
    end = min(end, n)
    cache.share(7, 0, end)
    assert cache.n_free == state[1]  # the same cells
    if more:
        step = cache.start(positions(end, more), 7)
        assert not (before[step.ids, BITS]).any()
        for span, p in zip(step.spans, range(end, end + more), strict=True):
            assert visible(cache, span) == list(range(cache.first_seen(p), p + 1))
    held = (before[:, BITS] & 1) != 0
    assert ((cache.cells[held, BITS] & 1) != 0).all()
    cache.remove(7, 0)
    np.testing.assert_array_equal(cache.cells, before)
    assert (cache.n_kv, cache.n_free) == state


@settings(max_examples=100, deadline=None)
@given(
    sight=st.sampled_from([(None, None), (4, None), (1, None), (None, 4)]),
    gone=st.sets(st.integers(0, 20)),
    n=st.integers(0, 24),
)
def test_a_sequence_goes_on_as_far_back_as_it_must(
    sight: tuple[int | None, int | None], gone: set[int], n: int
) -> None:
    """The last place up to n of which all that its token sees is there, place by place."""
    cache = CausalCache(32, *sight)
    cache.start(positions(0, 21), 0)
    cache.start(positions(0, 3), 1)
    cells = [i for i in range(21) if i in gone]
    cache.cells[cells] = (0, -1)

    def good(p: int) -> bool:
        return all(q <= 20 and q not in gone for q in range(cache.first_seen(p), p))

    assert cache.resumable(0, n) == max(p for p in range(n + 1) if good(p))
