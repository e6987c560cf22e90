"""Of a table each run takes what its marker says; the rest is `full`."""

from itertools import product

import pytest

from tests.line.cases import mark_full

COMBINATIONS = tuple(product(("Q4_0", "Q8_0", "F16"), ("one", "many"), ("own", "other")))


@pytest.fixture
def cases(request: pytest.FixtureRequest) -> list[pytest.Item]:
    """Items of a test that pytest has not collected, one per combination."""
    made = [
        pytest.Function.from_parent(
            request.node.parent,
            name=f"test_table[{'-'.join(values)}]",
            originalname="test_table",
            callobj=lambda: None,
        )
        for values in COMBINATIONS
    ]
    return list(made)


def left(cases: list[pytest.Item]) -> list[set[str]]:
    """The values of those that run each time."""
    mark_full(cases)
    names = [item.name for item in cases if item.get_closest_marker("full") is None]
    return [set(name.removeprefix("test_table[")[:-1].split("-")) for name in names]


def test_each_value_is_in_a_case(cases: list[pytest.Item]) -> None:
    for item in cases:
        item.add_marker(pytest.mark.each_value)
    kept = left(cases)
    assert set().union(*kept) == set().union(*COMBINATIONS)
    assert len(kept) == 3


def test_a_part_is_sampled(cases: list[pytest.Item]) -> None:
    for item in cases:
        item.add_marker(pytest.mark.sampled(4))
    assert len(left(cases)) == 3


def test_a_pattern_names_what_is_full(cases: list[pytest.Item]) -> None:
    for item in cases:
        item.add_marker(pytest.mark.full_cases("many|other"))
    assert left(cases) == [{name, "one", "own"} for name in ("Q4_0", "Q8_0", "F16")]


def test_without_a_marker_all_run(cases: list[pytest.Item]) -> None:
    assert len(left(cases)) == len(COMBINATIONS)
