"""Every pre-tokenizer and kind of vocabulary against llama.cpp and the models' own tokenizers.

The goldens are made by tests/goldens/make_pre_goldens.py, which tells what is in them.
"""

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from engine.errors import BadFile
from engine.tokenizer import Tokenizer, load_tokenizer
from engine.tokenizer.patterns import PRE_TOKENIZERS
from engine.tokenizer.unigram import CharsMap
from tests.engine.tokenizer.vocabs import metadata

GOLDEN = Path(__file__).parents[2] / "goldens" / "pre_tokenizers.json.xz"
GOLDENS: dict[str, Any] = json.loads(lzma.decompress(GOLDEN.read_bytes()))
TEXTS: list[str] = GOLDENS["texts"]
NAMES: dict[str, Any] = GOLDENS["gpt2"]["names"]
# Where a model's own tokenizer and llama.cpp part, ours is the model's.
OWN = {"tekken", "gpt-4o", "kimi-k2", "afmoe", "tiny_aya", "granite-embed-multi-97m", "youtu"}


def loaded(kind: str, **values: Any) -> Tokenizer:
    given = {"model": kind, **GOLDENS[kind]["vocab"], **values}
    return load_tokenizer(metadata({f"tokenizer.ggml.{k}": v for k, v in given.items()}))


def check(tokenizer: Tokenizer, case: dict[str, Any], add: bool) -> None:
    for i, (text, ids) in enumerate(zip(TEXTS, case["ids"], strict=True)):
        expected = case.get("own", {}).get(str(i), ids)
        assert tokenizer.encode(text, add_special=add, parse_special=False) == expected, text


@pytest.mark.parametrize("name", [name for name in NAMES if NAMES[name]["same"] == name])
def test_ids_of_a_pre_tokenizer(name: str) -> None:
    tokenizer = loaded("gpt2", pre=name)
    check(tokenizer, NAMES[name], add=False)
    assert bool(NAMES[name]["own"]) == (name in OWN)


def test_names_with_equal_ids_cut_equally() -> None:
    """And every name is compared, but the two whose vocabulary is of characters."""
    for name, golden in NAMES.items():
        mine, other = PRE_TOKENIZERS[name], PRE_TOKENIZERS[golden["same"]]
        assert mine.patterns == other.patterns, name
        assert mine.ignore_merges == other.ignore_merges, name
        assert mine.add_bos == golden["add_bos"], name
    assert set(PRE_TOKENIZERS) - set(NAMES) == {"gemma4", "granite-embed-multi-311m"}


@pytest.mark.parametrize("options", GOLDENS["bert"]["cases"])
def test_word_pieces(options: str) -> None:
    lower, strip = (word == "True" for word in options.split())
    given = {"normalizer.lowercase": lower, "normalizer.strip_accents": strip}
    check(loaded("bert", **given), GOLDENS["bert"]["cases"][options], add=True)


def test_word_pieces_read_and_long_words() -> None:
    tokenizer = loaded("bert")
    ids = tokenizer.encode("Hello, WORLD")
    assert [tokenizer.text(ids[0]), tokenizer.text(ids[-1])] == ["[CLS]", "[SEP]"]
    assert tokenizer.decode(ids) == "hello , world"
    unknown = tokenizer.id("[UNK]")
    assert tokenizer.encode("a" * 101, add_special=False) == [unknown]
    assert unknown not in tokenizer.encode("a" * 100, add_special=False)


@pytest.mark.parametrize("merges", GOLDENS["t5"]["cases"])
def test_unigrams(merges: str) -> None:
    tokenizer = loaded("t5", remove_extra_whitespaces=merges == "True")
    check(tokenizer, GOLDENS["t5"]["cases"][merges], add=True)


def changed_map(change: bytes, at: int, size: int | None = None) -> list[int]:
    """The small map with some bytes replaced; `size` cuts it off."""
    blob = bytes(GOLDENS["t5"]["vocab"]["precompiled_charsmap"])
    return [*(blob[:at] + change + blob[at + len(change) :])[:size]]


@pytest.mark.parametrize(
    ("blob", "problem"),
    [
        ([0, 0, 0, 0, 1], "5 bytes is cut off"),
        (changed_map(b"\xff\xff\xff\x7f", 0), "is cut off"),
        (changed_map(b"\xff\xff\xff\xff", 4), "is broken: unit"),
    ],
)
def test_broken_maps(blob: list[int], problem: str) -> None:
    with pytest.raises(BadFile, match=problem):
        loaded("t5", precompiled_charsmap=blob).encode("hello \ufb01")


def test_a_map_whose_texts_never_end() -> None:
    blob = changed_map(b"", 0)
    size = 4 + int.from_bytes(bytes(blob[:4]), "little")
    endless = [*blob[:size], *[ord("x")] * (len(blob) - size)]
    with pytest.raises(BadFile, match="no text ends"):
        loaded("t5", precompiled_charsmap=endless).encode("\ufb01")


def test_a_map_whose_units_lie_far_apart() -> None:
    """A unit with bit 9 has its offset in 256s; "x" is "yz" by way of units 0x178, 0x179."""
    units = [0] * 0x180
    units[0] = 1 << 10 | 1 << 9
    units[0x178] = 1 << 10 | 1 << 8 | ord("x")
    units[0x179] = 1 << 31
    table = b"".join(unit.to_bytes(4, "little") for unit in units)
    blob = len(table).to_bytes(4, "little") + table + b"yz\0"
    assert CharsMap("test.gguf", blob).normalised("axb") == "ayzb"


def test_an_unknown_character_costs_ten_more_than_the_worst_token() -> None:
    words = {"ab": -30.0, "bc": -1.0, "c": -5.0, "bd": -1.0, "d": -12.0}
    tokenizer = load_tokenizer(
        metadata(
            {
                "tokenizer.ggml.model": "t5",
                "tokenizer.ggml.tokens": ["<pad>", "</s>", "<unk>", *words],
                "tokenizer.ggml.scores": [0.0, 0.0, 0.0, *words.values()],
                "tokenizer.ggml.token_type": [3, 3, 2, *[1] * len(words)],
            }
        )
    )
    pieces = [[tokenizer.text(i) for i in tokenizer.encode(text)] for text in ("abc", "abd")]
    assert pieces == [["ab", "c", "</s>"], ["<unk>", "bd", "</s>"]]
