"""Words of two answers: their bounds, their probabilities, where the answers part."""

from math import isnan

from hypothesis import given
from hypothesis import strategies as st

from app.state.pair.words import (
    ComparedWord,
    ScoredTokens,
    character_ends,
    compared_words,
    parting,
)

TEXT = "the Eiffel tower"
OWN = ScoredTokens([3, 6, 10, 16], [-0.1, -0.2, -0.3, -0.4])
OTHER = ScoredTokens([3, 10, 13, 16], [-1.0, -2.0, -4.0, -8.0])


def test_words_are_the_parts_that_both_models_cut_alike() -> None:
    words = compared_words(0, OWN, OTHER)
    assert [TEXT[w.start : w.end] for w in words] == ["the", " Eiffel", " tower"]
    assert [round(w.own, 6) for w in words] == [-0.1, -0.5, -0.4]
    assert [round(w.other, 6) for w in words] == [-1.0, -2.0, -12.0]


def test_without_the_other_model_each_token_is_a_word() -> None:
    words = compared_words(0, OWN, None)
    assert [w.end for w in words] == list(OWN.ends)
    assert all(isnan(w.other) for w in words)


def test_a_token_without_a_character_belongs_to_the_next_word() -> None:
    own = ScoredTokens([0, 2, 2, 3], [-1.0, -2.0, -4.0, -8.0])  # halves of characters
    words = compared_words(0, own, ScoredTokens([2, 3], [-0.5, -0.5]))
    assert [(w.start, w.end, w.own) for w in words] == [(0, 2, -7.0), (2, 3, -8.0)]


@given(st.data())
def test_no_probability_is_lost(data: st.DataObject) -> None:
    """All tokens up to the last common bound are in exactly one word."""
    length = data.draw(st.integers(1, 30))
    sides = []
    for _ in range(2):
        ends = sorted(data.draw(st.lists(st.integers(0, length), max_size=20))) + [length]
        sides.append(ScoredTokens(ends, [-1.0] * len(ends)))
    words = compared_words(0, *sides)
    assert [w.start for w in words] == [0, *(w.end for w in words[:-1])]
    assert words[-1].end == length
    assert sum(w.own for w in words) == -len(sides[0].ends)
    assert sum(w.other for w in words) == -len(sides[1].ends)


@given(st.text(max_size=20), st.data())
def test_ends_in_characters_are_those_of_the_decoded_text(text: str, data: st.DataObject) -> None:
    whole = text.encode("utf-8", "surrogatepass")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8))) + [len(whole)]
    pieces = [whole[a:b] for a, b in zip([0, *cuts], cuts, strict=False)]
    wanted = []
    for cut in cuts:
        begun = whole[:cut].decode("utf-8", "surrogatepass" if cut == len(whole) else "ignore")
        wanted.append(len(begun))
    if "\ud800" <= max(text, default="") <= "\udfff":
        return  # no decoder ignores half a surrogate
    assert character_ends(text, pieces) == wanted
    assert character_ends(text, [b" ", *pieces]) == [0, *wanted]
    assert character_ends(text, [*pieces, b"x"]) is None


def words_of(text: str) -> list[ComparedWord]:
    ends = [i + 1 for i, c in enumerate(text) if c == " "] + [len(text)]
    return compared_words(0, ScoredTokens(ends, [-1.0] * len(ends)), None)


def test_answers_part_at_the_first_word_that_differs() -> None:
    for left, right, at in (
        ("a b c", "a b d", (2, 2)),
        ("a b", "a b c", (2, 1)),  # the left one ends
        ("a b ", "a b c", (2, 2)),
        ("x", "y", (0, 0)),
        ("", "y", (0, 0)),
    ):
        assert parting((left, right), (words_of(left), words_of(right))) == at
    assert parting(("a b", "a b"), (words_of("a b"), words_of("a b"))) is None
