"""Merging against its definition: again and again the best pair, the leftmost of equals."""

from hypothesis import given
from hypothesis import strategies as st

from engine.tokenizer.merge import merge
from tests.bounds import at_most_lines

RULES = st.dictionaries(st.text("abc", min_size=2, max_size=5), st.integers(0, 3), max_size=12)


def by_definition(text: str, rules: dict[str, int]) -> list[str]:
    pieces = list(text)
    while True:
        pairs = enumerate(zip(pieces, pieces[1:], strict=False))
        found = [(rules[a + b], i) for i, (a, b) in pairs if a + b in rules]
        if not found:
            return pieces
        i = min(found)[1]
        pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]


@given(st.text("abc", max_size=30), RULES)
def test_equals_its_definition(text: str, rules: dict[str, int]) -> None:
    assert merge(text, lambda a, b: rules.get(a + b)) == by_definition(text, rules)


def test_a_pair_that_has_changed_waits_for_its_new_turn() -> None:
    rules = {"bc": 0, "ab": 1, "bcd": 3, "abc": 5}
    assert merge("abcd", lambda a, b: rules.get(a + b)) == ["a", "bcd"]


def test_a_long_run_is_not_quadratic() -> None:
    rules = {"a" * 2**k: -k for k in range(1, 12)}
    asked = 0

    def priority(a: str, b: str) -> int | None:
        nonlocal asked
        asked += 1
        return rules.get(a + b)

    size = 30_000
    with at_most_lines(100 * size):
        assert len(merge("a" * size, priority)) < 50
    assert asked < 4 * size
