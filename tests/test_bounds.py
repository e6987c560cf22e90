"""The bounds that tests use, and that they use them: no test asserts a time."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.bounds import TooMuchWork, at_most_lines, holds_once, times_as_long
from tests.program import ROOT

CLOCKS = ("monotonic", "perf_counter", "process_time", "thread_time", "monotonic_ns")
CLOCKS += ("perf_counter_ns", "process_time_ns", "thread_time_ns")


def endless() -> None:
    while True:
        pass


def deaf() -> None:
    try:
        for _ in range(1000):
            pass
    except AssertionError:
        pass


@pytest.mark.parametrize("work", [endless, deaf])
@pytest.mark.timeout(60)
def test_too_much_is_ended_also_where_it_is_caught(work: Callable[[], None]) -> None:
    with pytest.raises(TooMuchWork), at_most_lines(500):
        work()


@pytest.mark.timeout(60)
def test_lines_of_the_block_itself_count() -> None:
    n = 0
    with pytest.raises(TooMuchWork), at_most_lines(500):  # noqa: PT012
        while True:
            n += 1
    assert 100 < n < 500


def test_few_lines_pass() -> None:
    with at_most_lines(100):
        assert sum(range(10**6)) > 0  # one line, whatever it costs


def test_three_times_the_work_takes_about_three_times_as_long() -> None:
    ratio = times_as_long(lambda: sum(range(3_000_000)), lambda: sum(range(1_000_000)))
    assert 1.5 < ratio < 6


def test_a_check_that_holds_once() -> None:
    left = [1, 3]

    def check() -> None:
        assert left.pop() == 1

    holds_once(check)
    assert left == []
    left = [5, 4, 3, 2]
    with pytest.raises(AssertionError):
        holds_once(check)
    assert left == [5]  # three tries


def asserted_times(text: str) -> Iterator[int]:
    """Lines where a clock is held against a number, or a difference of its readings against
    anything.
    """
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assert):
            for compare in (n for n in ast.walk(node.test) if isinstance(n, ast.Compare)):
                sides = [compare.left, *compare.comparators]
                if any(map(measures, sides)) or (
                    any(map(reads_a_clock, sides)) and any(map(is_number, sides))
                ):
                    yield node.lineno


def reads_a_clock(side: ast.expr) -> bool:
    calls = (n.func for n in ast.walk(side) if isinstance(n, ast.Call))
    names = (f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "") for f in calls)
    return any(name in CLOCKS for name in names)


def measures(side: ast.expr) -> bool:
    """True for a difference of two readings of a clock, also within a product."""
    found = (n for n in ast.walk(side) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Sub))
    return any(reads_a_clock(n.left) for n in found)


def is_number(side: ast.expr) -> bool:
    return isinstance(side, ast.Constant) and isinstance(side.value, int | float)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("assert time.monotonic() - began < 2", True),
        ("assert 0.5 > perf_counter() - start", True),
        ("assert time.monotonic() - began < SOON", True),
        ("assert time.monotonic() < deadline", False),
        ("assert len(found) < 2", False),
    ],
)
def test_what_asserts_a_time(line: str, found: bool) -> None:
    assert bool(list(asserted_times(line))) == found


def test_no_test_asserts_a_time() -> None:
    files: list[Path] = sorted((ROOT / "tests").rglob("*.py"))
    texts = {path: path.read_text() for path in files}
    clocks = {path: text for path, text in texts.items() if any(name in text for name in CLOCKS)}
    found = [f"{p.relative_to(ROOT)}:{n}" for p in clocks for n in asserted_times(clocks[p])]
    assert found == []
