"""Texts too long for anybody: bounded before they are cut, and given up in the middle."""

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.tokenizer import merge as merging
from engine.tokenizer.tokenizer import Tokenizer, load_tokenizer
from tests.bounds import at_most_lines
from tests.engine.tokenizer.vocabs import (
    byte_pairs,
    cheapest_paths,
    longest_matches,
    sentence_piece,
)

WORDS = {"a": -1.0, "aa": -2.0, "aaaa": -3.0, "the": -4.0, "\u2581the": -5.0, "\u2581\u2581": -6.0}
PIECES = ["a a", "aa aa", "t h", "th e", "\u0120 the", "\u0120 \u0120", "\u00c3 \u00a9"]
WIDE = "<|" + " a" * 20 + "|>"
MADE: dict[str, Callable[[], Tokenizer]] = {
    "sentence pieces": lambda: load_tokenizer(sentence_piece(WORDS)),
    "byte pairs": lambda: load_tokenizer(byte_pairs(PIECES, ["<|end|>", "<|aaaaaaaaaaaaaaaa|>"])),
    "longest matches": lambda: load_tokenizer(longest_matches(["aa", "aaaa", "the", " the"])),
    "cheapest paths": lambda: load_tokenizer(cheapest_paths(WORDS)),
    "wide marks": lambda: load_tokenizer(byte_pairs(PIECES, [WIDE])),
}
TOKENIZERS = {name: make() for name, make in MADE.items()}
TEXTS = st.one_of(
    st.text("a the\u00e9\u2581\n<|end>", max_size=60),
    st.text(max_size=40),
    st.sampled_from(["<|end|>", "<|aaaaaaaaaaaaaaaa|>", "<|" + " a" * 20 + "|>"]).map(
        lambda t: t * 9
    ),
)


@settings(deadline=None)
@given(TEXTS, st.sampled_from(list(TOKENIZERS)))
def test_no_text_has_fewer_tokens_than_its_least(text: str, name: str) -> None:
    tokenizer = TOKENIZERS[name]
    assert tokenizer.least(text) <= len(tokenizer.encode(text, add_special=False))


@pytest.mark.parametrize("name", ["sentence pieces", "byte pairs"])
def test_the_least_of_a_long_text_is_found_without_cutting_it(name: str) -> None:
    tokenizer = TOKENIZERS[name]
    tokenizer.least("")  # the vocabulary is looked at once
    with at_most_lines(100):
        least = tokenizer.least("a" * 3_000_000)
    longest = 4 if name == "sentence pieces" else 20
    assert 3_000_000 // longest <= least <= 750_000


@pytest.mark.parametrize(
    "name", ["sentence pieces", "byte pairs", "longest matches", "cheapest paths"]
)
@pytest.mark.parametrize("text", ["a" * 30_000, "a the " * 10_000])
def test_a_long_text_is_given_up_in_the_middle(name: str, text: str) -> None:
    class Left(Exception):
        pass

    def leave() -> None:
        raise Left

    with at_most_lines(400_000), pytest.raises(Left):
        TOKENIZERS[name].pausing(leave).encode(text)
    assert TOKENIZERS[name].encode("aa") == TOKENIZERS[name].encode("aa")  # the others are not


@pytest.mark.parametrize(("name", "unit"), [("sentence pieces", "aat"), ("byte pairs", "a")])
def test_a_long_word_takes_less_than_ten_times_its_size(
    name: str, unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A word of many parts, as one of 64 MiB has."""
    monkeypatch.setattr(merging, "PART", 64)
    text = unit * (30_000 // len(unit))
    TOKENIZERS[name].encode(text[:1000])
    tracemalloc.start()
    try:
        assert TOKENIZERS[name].encode(text)
        assert tracemalloc.get_traced_memory()[1] < 10 * len(text)
    finally:
        tracemalloc.stop()


def test_words_are_cut_while_they_are_wanted() -> None:
    """Not all before the first: of a long text they would take more than all else."""
    from engine.tokenizer.patterns import PRE_TOKENIZERS

    for pre in {id(one): one for one in PRE_TOKENIZERS.values()}.values():
        assert list(pre.words("a"))  # its patterns are compiled
        with at_most_lines(200):
            assert next(pre.words("a 1 \u00e9\n" * 100_000))
