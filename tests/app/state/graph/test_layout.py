"""Boxes never overlap, what is read stands above, and lines lead from the one to the other."""

import random

import pytest

from app.state.graph.layout import BETWEEN, HEIGHT, LaidOut, lay_out

Edges = list[tuple[int, int]]


def check(widths: list[float], edges: Edges, laid: LaidOut) -> None:
    boxes = [(x, y, x + w, y + HEIGHT) for (x, y), w in zip(laid.places, widths, strict=True)]
    for i, (left, top, right, bottom) in enumerate(boxes):
        assert 0 <= left <= right <= laid.width + 0.5
        assert 0 <= top < bottom <= laid.height
        for other in boxes[i + 1 :]:
            apart = right < other[0] or other[2] < left or bottom < other[1] or other[3] < top
            assert apart, (i, boxes[i], other)
    for (start, end), line in zip(edges, laid.lines, strict=True):
        assert boxes[start][3] < boxes[end][1]
        assert line[0][1] == boxes[start][3]
        assert line[-1][1] == boxes[end][1]
        assert boxes[start][0] <= line[0][0] <= boxes[start][2]
        assert boxes[end][0] <= line[-1][0] <= boxes[end][2]
        for (x, y), (u, v) in zip(line, line[1:], strict=False):
            assert x == u or y == v
            assert v >= y


@pytest.mark.parametrize("seed", range(30))
def test_any_graph(seed: int) -> None:
    chance = random.Random(seed)
    n = chance.randint(1, 40)
    widths = [float(chance.randint(40, 300)) for _ in range(n)]
    edges = [(a, b) for b in range(n) for a in range(b) if chance.random() < 2 / n]
    laid = lay_out(widths, edges)
    check(widths, edges, laid)
    assert lay_out(widths, edges) == laid


def test_nothing() -> None:
    assert lay_out([], []) == LaidOut((), (), 0.0, 0.0)


def test_chains_are_straight() -> None:
    """Three lanes that part and meet, as queries, keys and values do; each is one line."""
    widths = [140.0, 130, 130, 130, 160, 160, 240, 170]
    edges = [(0, 1), (0, 2), (0, 3), (1, 4), (2, 5), (3, 6), (4, 7), (5, 7), (6, 7)]
    laid = lay_out(widths, edges)
    check(widths, edges, laid)
    assert [len(laid.lines[edges.index(e)]) for e in ((1, 4), (2, 5), (3, 6))] == [2, 2, 2]


def test_lanes_do_not_drift_apart() -> None:
    """A lane that ends early passes as a line on its own side, not across the others."""
    widths = [140.0, 130, 130, 130, 150, 120, 120, 150]
    edges = [(0, 1), (0, 2), (0, 3), (1, 4), (2, 5), (4, 6), (6, 7), (5, 7), (3, 7)]
    laid = lay_out(widths, edges)
    check(widths, edges, laid)
    assert laid.width < 3 * 150 + 4 * BETWEEN
    lowest = {start: line[-1][0] for (start, end), line in zip(edges, laid.lines, strict=True)
              if end == 7}  # fmt: skip
    assert lowest[6] < lowest[5] < lowest[3]


def test_one_more_item_at_the_end_moves_no_rank() -> None:
    widths, edges = [100.0] * 6, [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (2, 5)]
    before = lay_out(widths, edges)
    after = lay_out([*widths, 100.0], [*edges, (4, 6)])
    assert [y for _, y in after.places[:6]] == [y for _, y in before.places]


def test_lines_of_different_items_do_not_run_over_each_other() -> None:
    widths, edges = [60.0] * 6, [(0, 4), (1, 5), (2, 3), (0, 5), (1, 3), (2, 4)]
    laid = lay_out(widths, edges)
    check(widths, edges, laid)
    level: dict[float, list[tuple[float, float, int]]] = {}
    for (start, _), line in zip(edges, laid.lines, strict=True):
        for (x, y), (u, v) in zip(line, line[1:], strict=False):
            if y == v:
                level.setdefault(y, []).append((min(x, u), max(x, u), start))
    for spans in level.values():
        for i, (a, b, one) in enumerate(spans):
            for c, d, other in spans[i + 1 :]:
                assert one == other or b <= c or d <= a
