"""Addresses by lifetime."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.gguf.formats import I8
from engine.graph.tensor import Role, Tensor, leaf
from engine.scheduler.allocate import ArenaLayout, ArenaPlace, Lifetime, allocate

MOST = 1 << 20


def tensor() -> Tensor:
    return leaf("t", I8, (1,), Role.NONE)


def lifetime(size: int, first: int, last: int) -> Lifetime:
    return Lifetime((tensor(),), (first,), last, size)


def place(layout: ArenaLayout, life: Lifetime) -> ArenaPlace:
    return layout.places[life.storages[0]]


LIFETIMES = st.lists(
    st.builds(
        lambda units, first, length: lifetime(units * 64, first, first + length),
        st.integers(0, 80),
        st.integers(0, 40),
        st.integers(0, 20),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(LIFETIMES, st.sampled_from([64 * 10, 64 * 100, MOST]), st.sampled_from([0, 64, 64 * 30]))
def test_nothing_that_lives_together_overlaps(
    lives: list[Lifetime], most: int, reserved: int
) -> None:
    layout = allocate(lives, most, reserved)
    assert set(layout.places) == {life.storages[0] for life in lives}
    ends = [reserved] if reserved else []
    for life in lives:
        chunk, start = place(layout, life)
        assert start % 64 == 0
        assert start >= (reserved if chunk == 0 else 0)
        ends += [0] * (chunk + 1 - len(ends))
        ends[chunk] = max(ends[chunk], start + life.size)
    assert list(layout.chunks) == ends
    large = {life.size for life in lives} | {reserved}
    assert all(size <= most or size in large for size in layout.chunks)
    for i, a in enumerate(lives):
        for b in lives[:i]:
            if a.first <= b.last and b.first <= a.last:
                (chunk, x), (other, y) = place(layout, a), place(layout, b)
                assert chunk != other or x + a.size <= y or y + b.size <= x


@settings(deadline=None)
@given(LIFETIMES, st.sampled_from([64 * 10, MOST]))
def test_the_bound_is_what_lives_at_once(lives: list[Lifetime], most: int) -> None:
    layout = allocate(lives, most, 128)
    at_once = [
        sum(life.size for life in lives if life.first <= step <= life.last) for step in range(61)
    ]
    assert layout.bound == 128 + max(at_once)
    assert layout.busiest == at_once.index(max(at_once))
    assert 128 + sum(life.size for life in layout.alive) == layout.bound
    assert layout.bound <= layout.peak <= 128 + sum(life.size for life in lives)


def test_a_chain_needs_two_places() -> None:
    lives = [lifetime(1024, i, i + 1) for i in range(50)]
    assert allocate(lives, MOST).chunks == (2 * 1024,)


def test_what_takes_bytes_over_lies_where_they_are() -> None:
    a, b, c = tensor(), tensor(), tensor()
    layout = allocate([Lifetime((a, b, c), (0, 3, 5), 9, 256), lifetime(256, 4, 4)], MOST)
    assert layout.places[a] == layout.places[b] == layout.places[c]
    (both, _) = layout.alive
    assert layout.busiest == 4
    assert [both.at(step) for step in (0, 2, 3, 4, 5, 9)] == [a, a, b, b, c, c]


def test_the_tightest_gap_is_taken() -> None:
    """Whichever comes first, the small one leaves the large gap to the large one."""
    for births in ((2, 3), (3, 2), (2, 2)):
        big, wall, small = lifetime(4096, 0, 1), lifetime(5120, 0, 9), lifetime(512, 0, 1)
        fits_small, fits_big = lifetime(512, births[0], 9), lifetime(4096, births[1], 9)
        layout = allocate([big, wall, small, fits_small, fits_big], MOST)
        assert layout.peak == layout.bound == 4096 + 5120 + 512


def test_an_order_other_than_births_where_it_is_better() -> None:
    """By birth the first two part the room that the large one wants."""
    lives = [lifetime(64, 0, 1), lifetime(64, 0, 5), lifetime(64, 1, 2), lifetime(640, 2, 5)]
    layout = allocate(lives, MOST)
    assert layout.peak == layout.bound == 640 + 128


def test_chunks_hold_no_more_than_the_most() -> None:
    lives = [lifetime(192, 0, 9), lifetime(192, 0, 9), lifetime(64, 0, 9)]
    layout = allocate(lives, 256)
    assert sorted(layout.chunks) == [192, 256]
    # An arena that has room behind what dies needs no third.
    more = [lifetime(192, 10, 12), lifetime(256, 10, 12)]
    assert allocate([*lives, *more], 256).peak == 448


def test_what_is_larger_than_the_most_has_a_chunk_of_its_size() -> None:
    large, small = lifetime(1024, 0, 9), lifetime(128, 0, 9)
    layout = allocate([small, large], 256)
    assert layout.chunks == (128, 1024)
    assert layout.names == ("", "t")
    assert place(layout, large) == (1, 0)


def test_reserved_bytes_come_first() -> None:
    life = lifetime(128, 0, 1)
    layout = allocate([life], 256, reserved=192)
    assert layout.chunks == (192, 128)
    assert layout.bound == 320
    assert allocate([life], 512, reserved=192).places[life.storages[0]] == (0, 192)


@pytest.mark.parametrize("reserved", [0, 64])
def test_nothing_needs_nothing(reserved: int) -> None:
    layout = allocate([], MOST, reserved)
    assert layout.peak == layout.bound == reserved
    assert layout.alive == ()
