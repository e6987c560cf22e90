"""Which token sees which picture's rows, against a walk over the prompt."""

import random

import numpy as np
import pytest

from engine.errors import ContextFull, NotSupported
from engine.kvcache.encoded import EncodedCache, EncodedStep, Entering


def picture(position: int, rows: int) -> Entering:
    return Entering(np.full((rows, 2), position, np.float32), position)


def start(
    cache: EncodedCache, positions: np.ndarray, entering: list[Entering], sequence: int = 0
) -> EncodedStep | None:
    places = positions.astype(np.int32)
    return cache.start(places, np.full(len(places), sequence, np.int32), entering)


def seen(step: EncodedStep | None, row: int) -> list[int]:
    """Positions of the cells that a token sees, as attention reads spans and cells."""
    if step is None:
        return []
    bits, first, last, _ = step.spans[row]
    cells = step.cells[: step.n_kv]
    there = (cells[:, 0] & bits != 0) & (first <= cells[:, 1]) & (cells[:, 1] <= last)
    return sorted(cells[there, 1].tolist())


def latest(pictures: dict[int, int], position: int) -> list[int]:
    """The latest picture up to a position, and those that it directly follows, row by row."""
    group: list[int] = []
    for place in sorted(p for p in pictures if p <= position):
        group = [*group, place] if place - 1 in group else [place]
    return [place for place in group for _ in range(pictures[place])]


@pytest.mark.parametrize("seed", range(20))
def test_a_token_sees_the_latest_pictures(seed: int) -> None:
    chance = random.Random(seed)
    cache, pictures, position = EncodedCache(64), {}, 0
    for _ in range(8):
        n = chance.randint(1, 5)
        places = [p for p in range(position, position + n) if chance.random() < 0.3]
        entering = [picture(p, chance.randint(1, 3)) for p in places]
        pictures |= {one.position: len(one.rows) for one in entering}
        step = start(cache, np.arange(position, position + n), entering)
        for row in range(n):
            assert seen(step, row) == latest(pictures, position + row)
        if step is not None:
            assert [step.cells[i, 1] for i in step.ids] == step.rows[:, 0].tolist()[: len(step.ids)]
        free = cache.cells[:, 0] == 0
        assert ((cache.cells[:, 1] == -1) == free).all()
        position += n
        if chance.random() < 0.3:
            begin = chance.randint(0, position)
            end = chance.randint(begin, position)
            cache.remove(0, begin, end)
            kept = {p: r for p, r in pictures.items() if not begin <= p < end}
            pictures = {p - (end - begin) * (p >= end): r for p, r in kept.items()}
            position -= end - begin


def test_pictures_that_nobody_sees_make_room() -> None:
    cache = EncodedCache(8)
    start(cache, np.arange(4), [picture(1, 6)])
    step = start(cache, np.arange(4, 8), [picture(4, 5)])
    assert seen(step, 3) == [4] * 5
    assert (cache.cells[cache.cells[:, 0] == 0, 1] == -1).all()
    assert cache.resumable(0, 3) < 3
    assert cache.resumable(0, 7) == 7
    assert cache.resumable(0, 1) == 1


def test_what_is_seen_is_not_given_up() -> None:
    cache = EncodedCache(8)
    start(cache, np.arange(4), [picture(1, 6)])
    before = cache.cells.copy()
    with pytest.raises(ContextFull, match="free of 8 cells for pictures"):
        start(cache, np.arange(4, 8), [picture(6, 5)])  # 4 and 5 still look at the first
    assert np.array_equal(cache.cells, before)
    assert cache.resumable(0, 4) == 4


def test_pictures_behind_what_is_shared_are_not_seen() -> None:
    cache = EncodedCache(12)
    start(cache, np.arange(8), [picture(1, 4), picture(5, 3)])
    cache.share(2, 0, 4)
    step = start(cache, np.arange(4, 7), [], sequence=2)
    assert [seen(step, row) for row in range(3)] == [[1] * 4] * 3


def test_each_sequence_sees_its_own_and_what_it_shares() -> None:
    """In one step; what a picture of one gives up is kept for who shares it."""
    cache = EncodedCache(12)
    start(cache, np.arange(4), [picture(1, 4)])
    start(cache, np.arange(5), [picture(2, 3)], sequence=3)
    cache.share(5, 0, 4)
    owners = np.array([0, 3, 5, 7], np.int32)
    step = cache.start(np.array([4, 5, 4, 0], np.int32), owners, [])
    assert [seen(step, row) for row in range(4)] == [[1] * 4, [2] * 3, [1] * 4, []]
    assert cache.n_room == 5
    start(cache, np.arange(4, 6), [picture(4, 5)])
    assert cache.n_room == 0  # the first picture is seen by who shares it
    assert (cache.resumable(0, 6), cache.resumable(5, 4)) == (6, 4)
    with pytest.raises(ContextFull, match="1 tokens do not fit the context of 0"):
        start(cache, np.arange(5, 7), [picture(6, 1)], sequence=3)
    with pytest.raises(NotSupported, match="shares"):
        cache.remove(5, 0, 1)
    cache.remove(5, 0)
    assert cache.n_room == 4
    assert (cache.cells[:, 0] >> 5 & 1).sum() == 0
    cache.clear()
    assert (cache.n_room, cache.resumable(0, 6)) == (12, 6)
