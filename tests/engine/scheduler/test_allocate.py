"""Addresses by lifetime."""

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.gguf.formats import I8
from engine.graph.tensor import Role, leaf
from engine.scheduler.allocate import Lifetime, allocate


def lifetime(size: int, first: int, last: int) -> Lifetime:
    return Lifetime(leaf("t", I8, (size,), Role.NONE), size, first, last)


LIFETIMES = st.lists(
    st.builds(
        lambda size, first, length: lifetime(size, first, first + length),
        st.integers(1, 5000),
        st.integers(0, 40),
        st.integers(0, 20),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(LIFETIMES, st.sampled_from([1, 64, 256]))
def test_nothing_that_lives_together_overlaps(lives: list[Lifetime], alignment: int) -> None:
    layout = allocate(lives, alignment)
    assert set(layout.offsets) == {life.storage for life in lives}
    ends = []
    for life in lives:
        start = layout.offsets[life.storage]
        assert start >= 0
        assert start % alignment == 0
        ends.append(start + -(-life.size // alignment) * alignment)
    assert layout.peak == max(ends, default=0)
    for i, a in enumerate(lives):
        for b in lives[:i]:
            if a.first <= b.last and b.first <= a.last:
                x, y = layout.offsets[a.storage], layout.offsets[b.storage]
                assert x + a.size <= y or y + b.size <= x


@settings(deadline=None)
@given(LIFETIMES)
def test_the_peak_is_no_less_than_what_lives_at_once_and_no_more_than_all(
    lives: list[Lifetime],
) -> None:
    peak = allocate(lives, 64).peak
    sizes = {life.storage: -(-life.size // 64) * 64 for life in lives}
    at_once = (
        sum(sizes[life.storage] for life in lives if life.first <= step <= life.last)
        for step in range(61)
    )
    assert max(at_once) <= peak <= sum(sizes.values())


def test_a_chain_needs_two_places() -> None:
    lives = [lifetime(1000, i, i + 1) for i in range(50)]
    assert allocate(lives, 256).peak == 2 * 1024


def test_the_tightest_gap_is_taken_and_neighbours_merge() -> None:
    big, wall, small, end = (
        lifetime(4096, 0, 1),
        lifetime(256, 0, 9),
        lifetime(512, 0, 1),
        lifetime(256, 0, 9),
    )
    fits_small, fits_big = lifetime(500, 2, 9), lifetime(4000, 2, 9)
    layout = allocate([big, wall, small, end, fits_small, fits_big], 256)
    assert layout.offsets[fits_small.storage] == layout.offsets[small.storage]
    assert layout.offsets[fits_big.storage] == layout.offsets[big.storage]
    assert layout.peak == 4096 + 256 + 512 + 256

    left, right, above = lifetime(256, 0, 1), lifetime(256, 0, 1), lifetime(256, 0, 9)
    both = lifetime(512, 2, 9)
    assert allocate([left, right, above, both], 256).offsets[both.storage] == 0


def test_nothing_needs_nothing() -> None:
    assert allocate([], 256).peak == 0
