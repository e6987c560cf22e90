"""Packed strings against lists and dictionaries of the same ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tokenizer.strings import Strings

TEXTS = st.lists(st.text("ab\u2581\u00e9\U0001f999", max_size=3), max_size=40)
ANY = st.text("ab\u2581\u00e9\U0001f999", max_size=4)


@given(TEXTS, ANY)
def test_they_are_found_where_a_dictionary_has_them(texts: list[str], other: str) -> None:
    last = {text: i for i, text in enumerate(texts)}
    first = {text: i for i, text in reversed([*enumerate(texts)])}
    strings, firsts = Strings.of(texts), Strings.of(texts, first=True)
    for text in (*texts, other):
        assert strings.find(text) == last.get(text)
        assert firsts.find(text) == first.get(text)
    assert list(strings) == texts == strings[:]
    assert strings[::-2] == texts[::-2]
    assert (other in strings) == (other in texts)


@given(TEXTS, st.text("ab\u2581", min_size=1, max_size=2))
def test_what_holds_a_part(texts: list[str], part: str) -> None:
    expected = [text for text in texts if part in text[1:]]
    assert Strings.of(texts).holding(part) == expected


@given(st.lists(st.binary(max_size=4), max_size=10))
def test_bytes_that_are_no_text_read_as_they_decode(pieces: list[bytes]) -> None:
    bounds = np.cumsum([0, *map(len, pieces)], dtype=np.int64)
    strings = Strings(b"".join(pieces), bounds)
    texts = [piece.decode("utf-8", "replace") for piece in pieces]
    assert list(strings) == texts
    assert [strings.find(text) for text in texts] == [
        len(texts) - 1 - texts[::-1].index(text) for text in texts
    ]


def test_a_part_does_not_reach_across() -> None:
    assert Strings.of(["xa", "b", "xab"]).holding("ab") == ["xab"]


def test_half_a_character_in_each_of_two_strings() -> None:
    strings = Strings("\u00e9".encode(), np.array([0, 1, 2]))
    assert list(strings) == ["\ufffd", "\ufffd"]


def test_half_a_surrogate_pair_is_nowhere() -> None:
    assert Strings.of(["a", "\ufffd"]).find("\ud800") is None


def test_an_index_outside() -> None:
    with pytest.raises(IndexError):
        Strings.of(["a"])[1]
