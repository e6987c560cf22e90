"""The tokenizer's rules on small vocabularies, and what broken metadata gives."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import BadFile, TokenizerError, UnsupportedModel
from engine.gguf.metadata import Metadata
from engine.tokenizer import Tokenizer, load_tokenizer
from engine.tokenizer.merge import merge
from engine.tokenizer.vocab import TokenType
from engine.tokenizer.words import SPACE, space_cutter
from tests.engine.tokenizer.vocabs import (
    BYTE_TOKENS,
    byte_pairs,
    cheapest_paths,
    metadata,
    sentence_piece,
)

WORDS = {
    "\u2581": -1.0,
    "\u2581he": -2.0,
    "l": -3.0,
    "lo": -4.0,
    "\u2581\u2581": -5.0,
    "\u00e9": -6,
}
SPM = load_tokenizer(sentence_piece(WORDS))
BPE = load_tokenizer(byte_pairs(["h e", "l l", "he ll", "\u0120 w"], ["<s>", "<|im_end|>"]))
TEXTS = st.text(
    st.one_of(st.sampled_from("helo w\u00e9\n<s>\U0001f999"), st.characters(codec="utf-8"))
)


def texts(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    return [tokenizer.text(token) for token in ids]


def test_sentence_piece_merges_by_score_and_falls_back_to_bytes() -> None:
    found = texts(SPM, SPM.encode("hello \u00e9\u20ac"))
    word = ["<s>", "\u2581", "<0x68>", "<0x65>", "l", "lo"]
    assert found == [*word, "\u2581", "\u00e9", "<0xE2>", "<0x82>", "<0xAC>"]


def test_byte_pairs_merge_by_rank() -> None:
    assert texts(BPE, BPE.encode("hello we")) == ["hell", "o", "\u0120w", "e"]


@given(TEXTS)
def test_decoding_returns_the_text(text: str) -> None:
    assert BPE.decode(BPE.encode(text, parse_special=False)) == text
    if SPACE not in text:
        assert SPM.decode(SPM.encode(text, parse_special=False)) == text
        assert SPM.decode(SPM.encode(text), special=True) == "<s>" + text


@given(TEXTS, st.sampled_from([SPM, BPE]))
def test_a_stream_never_shows_half_a_character(text: str, tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode(text, add_special=False, parse_special=False)
    stream, shown = tokenizer.stream(), ""
    whole = b"".join(tokenizer.piece(token) for token in ids).decode()
    for token in ids:
        shown += stream.push(token)
        assert whole.startswith(shown)
    assert stream.flush() == ""
    assert shown == whole


def test_bytes_that_become_no_character_are_replaced_once_certain() -> None:
    euro = [BYTE_TOKENS.index(f"<0x{byte:02X}>") + 3 for byte in "\u20ac".encode()]
    stream = SPM.stream()
    assert [stream.push(token) for token in euro] == ["", "", "\u20ac"]
    assert [stream.push(token) for token in (*euro[:2], *euro)] == ["", "", "\ufffd", "", "\u20ac"]
    assert stream.push(euro[0]) == ""
    assert (stream.flush(), stream.flush()) == ("\ufffd", "")
    assert stream.push(euro[1]) == "\ufffd"


def test_the_space_in_front_is_dropped_from_a_text_but_not_from_a_continuation() -> None:
    ids = SPM.encode("l", add_special=False)
    assert texts(SPM, ids) == ["\u2581", "l"]
    assert SPM.decode(ids) == "l"
    assert "".join(map(SPM.stream().push, ids)) == " l"
    plain = load_tokenizer(sentence_piece(WORDS, add_space_prefix=False))
    assert texts(plain, plain.encode(" l")) == ["<s>", "\u2581", "l"]
    assert plain.decode(plain.encode(" l")) == " l"


def test_half_a_surrogate_pair_is_replaced() -> None:
    assert SPM.encode("\ud83e") == SPM.encode("\ufffd")
    assert BPE.encode("a\udd99b") == BPE.encode("a\ufffdb")


def test_control_tokens_count_only_when_parsed() -> None:
    bos, end = BPE.id("<s>"), BPE.id("<|im_end|>")
    assert BPE.encode("h<s><|im_end|>") == [BPE.id("h"), bos, end]
    assert len(BPE.encode("<|im_end|>", parse_special=False)) == len("<|im_end|>")
    assert BPE.decode([bos, BPE.id("h"), end]) == "h"
    assert BPE.decode([bos, BPE.id("h"), end], special=True) == "<s>h<|im_end|>"


def test_bos_and_eos() -> None:
    assert SPM.encode("") == [1]
    assert SPM.encode("", add_special=False) == []
    assert SPM.encode_prompt("<s>l") == SPM.encode("l") == SPM.encode_prompt("l")
    both = load_tokenizer(sentence_piece(WORDS, add_eos_token=True, bos_token_id=2, eos_token_id=0))
    assert both.encode("") == [2, 0]
    assert both.encode_prompt("") == [2]
    none = load_tokenizer(sentence_piece(WORDS, add_bos_token=False))
    assert none.encode("") == none.encode_prompt("") == []
    assert not BPE.add_bos
    assert BPE.bos is None
    llama3 = load_tokenizer(byte_pairs([], ["<s>"], pre="llama3", bos_token_id=256))
    assert llama3.encode("a") == [256, llama3.id("a")]
    denied = byte_pairs([], ["<s>"], pre="gemma4", bos_token_id=256, add_bos_token=False)
    assert load_tokenizer(denied).add_bos
    missing = byte_pairs([], pre="llama3", bos_token_id=0xFFFFFFFF)
    assert not load_tokenizer(missing).add_bos


def ends(special: list[str], **values: Any) -> set[str]:
    tokenizer = load_tokenizer(byte_pairs([], special, **values))
    return {tokenizer.text(token) for token in tokenizer.eog}


def test_what_ends_a_generation() -> None:
    assert ends([]) == set()
    assert ends(["<|eot_id|>", "<x>"]) == {"<|eot_id|>"}
    named = {"eos_token_id": 256, "eot_token_id": 257, "eom_token_id": 258}
    assert ends(["<a>", "<b>", "<c>", "<d>"], **named) == {"<a>", "<b>", "<c>"}
    assert ends(["<a>", "<b>", "<c>"], eos_token_ids=[256, 258]) == {"<a>", "<c>"}
    assert ends(["<|file_sep|>", "<fim_pad>", "<fim_prefix>"]) == {"<|file_sep|>", "<fim_pad>"}
    assert ends(["<a>", "<fim_pad>"], fim_pad_token_id=256) == {"<a>"}
    harmony = ["<|end|>", "<|call|>", "<|return|>", "<|channel|>"]
    assert ends(harmony) == {"<|call|>", "<|return|>"}
    assert ends(["</s>", "<|tool_response>"]) == {"<|tool_response>"}


def test_what_no_answer_may_have() -> None:
    """Ids outside are left out, as in llama.cpp."""
    assert BPE.suppressed == frozenset()
    meta = byte_pairs([], ["<a>", "<b>"], suppress_tokens=[257, 3, 258, -1])
    assert load_tokenizer(meta).suppressed == {257, 3}


def test_types_that_texts_decide() -> None:
    meta = byte_pairs(["< /", "</ s", "</s >"], ["<|channel|>"])
    tokenizer = load_tokenizer(meta)
    assert tokenizer.token_type(tokenizer.id("</s>") or -1) == TokenType.CONTROL
    assert tokenizer.token_type(tokenizer.id("<|channel|>") or -1) == TokenType.USER_DEFINED


def test_ignore_merges_takes_a_word_that_is_a_token() -> None:
    words = ["hello", "\u0120hello"]
    merged = load_tokenizer(byte_pairs([], words, pre="dbrx"))
    assert len(merged.encode("hello", parse_special=False)) == 5
    for name in ("llama3", "tekken", "glm4"):
        tokenizer = load_tokenizer(byte_pairs([], words, pre=name))
        assert texts(tokenizer, tokenizer.encode("hello hello", parse_special=False)) == words


def test_an_added_token_is_shown_as_written() -> None:
    tokenizer = load_tokenizer(byte_pairs([], ["\u4e16 "]))
    assert tokenizer.piece(256, special=True).decode() == "\u4e16 "
    tokenizer = load_tokenizer(byte_pairs(["\u4e16 x"]))
    assert tokenizer.decode([256]) == "\u4e16x"


UNITS = st.lists(st.text("ab\u2581", min_size=2, max_size=4), max_size=10)


@given(st.text("ab\u2581", max_size=40), UNITS)
def test_cutting_before_spaces_changes_nothing(text: str, units: list[str]) -> None:
    rank = {unit: i for i, unit in enumerate(units)}

    def priority(left: str, right: str) -> float | None:
        return rank.get(left + right)

    parts = space_cutter(units).split(text)
    assert [p for part in parts for p in merge(part, priority)] == list(merge(text, priority))


def test_a_long_text_is_cut_where_no_token_reaches_across() -> None:
    words = {"\u2581": -9.0, "ab": -2.0, "\u2581a": -1.5, "b\u2581a": -1.0, "\u2581c": -3.0}
    tokenizer = load_tokenizer(sentence_piece(words, add_space_prefix=False))
    short = tokenizer.encode("ab ab c", add_special=False)
    assert "b\u2581a" in texts(tokenizer, short)
    assert tokenizer.encode("ab ab c" * 100, add_special=False) == short * 100


BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"tokens": None}, "tokenizer.ggml.tokens"),
    ({"tokens": [1, 2]}, "strings"),
    ({"tokens": []}, "'tokenizer.ggml.tokens'"),
    ({"scores": [1.0]}, "'tokenizer.ggml.scores' has 1 values for 265 tokens"),
    ({"scores": None}, "no 'tokenizer.ggml.scores'"),
    ({"scores": ["a"] * 265}, "numbers"),
    ({"token_type": [1] * 264}, "'tokenizer.ggml.token_type' has 264 values for 265 tokens"),
    ({"token_type": ["a"] * 265}, "integers"),
    ({"bos_token_id": 265}, "'tokenizer.ggml.bos_token_id' is 265, but there are 265 tokens"),
    ({"eot_token_id": 300}, "'tokenizer.ggml.eot_token_id' is 300"),
    ({"eos_token_ids": [1, 999]}, "'tokenizer.ggml.eos_token_ids' is 999"),
    ({"eos_token_id": "x"}, "integer"),
    ({"suppress_tokens": ["x"]}, "integers"),
    ({"add_bos_token": "yes"}, "bool"),
    ({"model": None}, "'tokenizer.ggml.model'"),
]


def changed(meta: Metadata, changes: dict[str, Any]) -> Metadata:
    entries = {key: meta[key] for key in meta}
    for name, value in changes.items():
        key = f"tokenizer.ggml.{name}"
        entries.pop(key, None)
        if value is not None:
            entries[key] = metadata({key: value})[key]
    return Metadata("broken.gguf", entries)


@pytest.mark.parametrize(("changes", "problem"), BROKEN)
def test_broken_metadata_is_one_line_that_names_the_cause(
    changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(BadFile) as caught:
        load_tokenizer(changed(sentence_piece(WORDS), changes))
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("merges", "problem"),
    [(None, "tokenizer.ggml.merges"), (["h e", "he"], "has 'he', not two"), ([" h"], "has ' h'")],
)
def test_broken_merges(merges: list[str] | None, problem: str) -> None:
    with pytest.raises(BadFile, match=problem):
        load_tokenizer(changed(byte_pairs(["h e"]), {"merges": merges}))


def test_merges_that_lead_nowhere_or_in_a_circle_end() -> None:
    rules = ["a b", "b a", "ab ab", "aba b", "a b", "x y"]
    tokenizer = load_tokenizer(changed(byte_pairs([]), {"merges": rules}))
    # No token has these texts, so their letters stand.
    assert texts(tokenizer, tokenizer.encode("ababab")) == list("ababab")


def test_kinds_without_code() -> None:
    kinds = "gpt2, llama, plamo2, rwkv, t5"
    for kind in ("hybriddna", "none"):
        with pytest.raises(UnsupportedModel, match=f"tokenizer '{kind}'.*{kinds}"):
            load_tokenizer(changed(sentence_piece(WORDS), {"model": kind}))


def test_a_plamo_vocabulary_without_scores() -> None:
    meta = changed(cheapest_paths({"a": -1.0}), {"scores": None})
    with pytest.raises(BadFile, match="no 'tokenizer.ggml.scores'; a plamo2 one needs it"):
        load_tokenizer(meta)


@pytest.mark.parametrize("token", [-1, 265, 1 << 40])
def test_ids_outside_the_vocabulary(token: int) -> None:
    for use in (SPM.piece, SPM.text, SPM.token_type, SPM.stream().push):
        with pytest.raises(TokenizerError, match=f"token {token} does not exist"):
            use(token)
    with pytest.raises(TokenizerError):
        SPM.decode([token])


def word_piece(**values: Any) -> Metadata:
    texts = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "\u2581a"]
    given = {"model": "bert", "tokens": texts, "token_type": [3, 3, 3, 3, 1], "bos_token_id": 2}
    ids = {"seperator_token_id": 3, "unknown_token_id": 1}
    return metadata({f"tokenizer.ggml.{k}": v for k, v in {**given, **ids, **values}.items()})


def unigrams(**values: Any) -> Metadata:
    given = {"model": "t5", "tokens": ["<s>", "</s>", "<unk>", "\u2581a"]}
    more = {"scores": [0.0, 0.0, 0.0, -1.0], "token_type": [3, 3, 2, 1], "bos_token_id": 0}
    return metadata({f"tokenizer.ggml.{k}": v for k, v in {**given, **more, **values}.items()})


ENDED = {"bos_token_id": 0, "eos_token_id": 1, "add_bos_token": True, "add_eos_token": True}


@pytest.mark.parametrize(
    ("meta", "pair"),
    [
        (word_piece(), ([2], [3], [3])),
        (word_piece(add_sep_token=False, add_eos_token=True), ([2], [3], [3])),
        (unigrams(seperator_token_id=1, add_bos_token=True), ([0], [1, 1], [1])),
        (unigrams(add_bos_token=True), ([0], [1], [1])),
        (unigrams(seperator_token_id=1, add_sep_token=False), ([], [1], [1])),
        (byte_pairs([], **ENDED), ([0], [1], [1])),
        (byte_pairs([], **ENDED, pre="roberta-bpe", seperator_token_id=3), ([0], [1, 3], [1])),
        (byte_pairs([], **ENDED, pre="jina-v1-en"), ([0], [1, 1], [1])),
        (byte_pairs([], bos_token_id=0, eos_token_id=1), ([], [], [])),
        (sentence_piece(WORDS), ([1], [], [])),
    ],
)
def test_a_pair_has_the_marks_that_models_were_trained_with(
    meta: Metadata, pair: tuple[list[int], ...]
) -> None:
    """BERT: [CLS] a [SEP] b [SEP]; RoBERTa: <s> a </s></s> b </s>."""
    assert load_tokenizer(meta).pair == pair
