"""Merging against its definition: again and again the best pair, the leftmost of equals."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.tokenizer import merge as merging
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
    assert list(merge(text, lambda a, b: rules.get(a + b))) == by_definition(text, rules)


def test_a_pair_that_has_changed_waits_for_its_new_turn() -> None:
    rules = {"bc": 0, "ab": 1, "bcd": 3, "abc": 5}
    assert list(merge("abcd", lambda a, b: rules.get(a + b))) == ["a", "bcd"]


def test_a_long_run_is_not_quadratic() -> None:
    rules = {"a" * 2**k: -k for k in range(1, 12)}
    asked = 0

    def priority(a: str, b: str) -> int | None:
        nonlocal asked
        asked += 1
        return rules.get(a + b)

    size = 30_000
    with at_most_lines(100 * size):
        assert len(list(merge("a" * size, priority))) < 50
    assert asked < 4 * size


def trained(text: str, n: int) -> dict[str, int]:
    """Rules as byte-pair encoding makes them: again and again the pair that is met most."""
    pieces, rules = list(text), {}
    while len(rules) < n and len(pieces) > 1:
        (best, _), *_ = Counter(pairwise(pieces)).most_common(1)
        rules.setdefault("".join(best), len(rules))
        pieces = by_definition(text, rules)
    return rules


@settings(deadline=None, max_examples=60)
@given(st.text("ab", min_size=2, max_size=40), st.text("abc", max_size=300), st.integers(1, 12))
def test_parts_of_a_long_text_join_without_a_seam(learned: str, text: str, n: int) -> None:
    rules = trained(learned, n)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "PART", 24)
        patch.setattr(merging, "_SEAM", 3)
        assert list(merge(text, lambda a, b: rules.get(a + b))) == by_definition(text, rules)


def test_rules_that_no_training_has_made_take_more_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second part never begins as the first one ends: the last character decides."""
    monkeypatch.setattr(merging, "PART", 8)
    rules = {"ab": 3, "ba": 2, "bc": 1}
    text = "ab" * 20 + "c"
    assert list(merge(text, lambda a, b: rules.get(a + b))) == by_definition(text, rules)
