"""Of a table each run takes what its marker says; the rest is `full`."""

from itertools import product
from pathlib import Path

import pytest

from tests.line.cases import full_of, mark_full

COMBINATIONS = tuple(product(("Q4_0", "Q8_0", "F16"), ("one", "many"), ("own", "other")))

TABLE = """
import pytest
pytestmark = pytest.mark.full_cases("9")

@pytest.fixture(params=[pytest.param("a"), pytest.param("b", marks=pytest.mark.full)])
def letter(request):
    return request.param

@pytest.mark.sampled(3)
@pytest.mark.parametrize("n", range(1, 7))
def test_sampled(n, letter):
    pass

@pytest.mark.parametrize("n", [8, 9])
def test_named(n):
    pass

@pytest.mark.full
@pytest.mark.parametrize("n", range(5))
def test_never(n):
    pass
"""


def left(*marks: pytest.MarkDecorator) -> list[set[str]]:
    """The values of those that run each time."""
    cases = ["-".join(values) for values in COMBINATIONS]
    full = full_of("test_table", [(case, [mark.mark for mark in marks]) for case in cases])
    return [set(case.split("-")) for case in cases if case not in full]


def test_each_value_is_in_a_case() -> None:
    kept = left(pytest.mark.each_value)
    assert set().union(*kept) == set().union(*COMBINATIONS)
    assert len(kept) == 3


def test_a_part_is_sampled() -> None:
    assert len(left(pytest.mark.sampled(4))) == 3


def test_a_pattern_names_what_is_full() -> None:
    assert left(pytest.mark.full_cases("many|other")) == [
        {name, "one", "own"} for name in ("Q4_0", "Q8_0", "F16")
    ]


def test_without_a_marker_all_run() -> None:
    assert len(left()) == len(COMBINATIONS)


class Collected:
    """A plugin: the items of another run, by name, and how many others were made."""

    def __init__(self) -> None:
        self.chosen: list[str] = []
        self.deselected = 0

    @pytest.hookimpl(trylast=True)
    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        mark_full(metafunc)

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self.deselected += len(items)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.chosen = [item.name for item in session.items]


def test_items_are_made_of_those_that_may_run(tmp_path: Path) -> None:
    """The same whether the others are made and deselected or not; one of none is left to count."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_a_table.py").write_text(TABLE)

    def collected(marks: str, case: str = "") -> tuple[list[str], int]:
        plugin, of = Collected(), str(tmp_path / "test_a_table.py") + case
        words = ["-c", str(tmp_path / "pytest.ini"), "--collect-only", "-q", "-s", "-m", marks, of]
        # The plugin for unraisable errors searches the whole heap for garbage five times.
        for name in ("cacheprovider", "faulthandler", "unraisableexception"):
            words += ["-p", f"no:{name}"]
        pytest.main(words, [plugin])
        return plugin.chosen, plugin.deselected

    usual, others = collected("not full")
    assert (len(usual), others) == (3, 1)
    assert collected("not (full)") == (usual, 16)
    assert collected("not full", "::test_named[9]") == ([], 1)
    full, others = collected("full")
    assert (len(full), others, set(usual) & set(full)) == (16, 3, set())
