"""Ids, pieces and ends as llama.cpp gives them; the goldens tell how they were made."""

import hashlib
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from engine.gguf.reader import open_gguf
from engine.tokenizer import Tokenizer, load_tokenizer
from tests.engine.tokenizer.vocabs import metadata

GOLDENS = Path(__file__).parents[2] / "goldens"
VOCABS = json.loads(lzma.decompress((GOLDENS / "tokenizer_vocabs.json.xz").read_bytes()))
MODELS = json.loads((GOLDENS / "tokenizer_models.json").read_text())


def restored(vocab: dict[str, Any]) -> Tokenizer:
    """A reduced vocabulary at its full size; the tokens left out have texts nobody writes."""
    size, kept = vocab["size"], vocab["tokens"]
    texts = [f"\U0010fffe{i}" for i in range(size)]
    types = [5] * size
    scores = [0.0] * size
    for i, text, type in kept:
        texts[i], types[i] = text, type
    values = {"tokenizer.ggml.tokens": texts, "tokenizer.ggml.token_type": types}
    if vocab["scores"]:
        for (i, _, _), score in zip(kept, vocab["scores"], strict=True):
            scores[i] = score
        values["tokenizer.ggml.scores"] = scores
    if vocab["merges"]:
        values["tokenizer.ggml.merges"] = vocab["merges"]
    return load_tokenizer(metadata({**vocab["metadata"], **values}))


def check(tokenizer: Tokenizer, golden: dict[str, Any]) -> None:
    assert tokenizer.size == golden["size"]
    assert sorted(tokenizer.eog) == golden["eog"]
    assert tokenizer.add_bos == golden["add_bos"]
    for text, parsed, plain in golden["cases"]:
        assert tokenizer.encode(text) == parsed, text
        assert tokenizer.encode(text, add_special=False, parse_special=False) == plain, text


@pytest.mark.parametrize("name", VOCABS)
def test_ids_of_the_vocabularies_llama_cpp_ships(name: str) -> None:
    golden = VOCABS[name]
    tokenizer = restored(golden["vocab"])
    for text, expected in golden["shipped"]:
        ids = tokenizer.encode(text, add_special=False, parse_special=False)
        assert ids == expected, text
        assert tokenizer.decode(ids) == text
    check(tokenizer, golden)


def test_ids_of_rwkv_world() -> None:
    golden = json.loads(lzma.decompress((GOLDENS / "tokenizer_rwkv.json.xz").read_bytes()))
    tokenizer = restored(golden["vocab"])
    check(tokenizer, golden)
    for text, _, plain in golden["cases"]:
        assert tokenizer.decode(plain) == text
    # A person who writes the end's letters does not end the text.
    assert tokenizer.encode("<s>") == [0]
    assert 0 not in tokenizer.encode("<s>", parse_special=False)


def test_ids_of_plamo() -> None:
    golden = json.loads(lzma.decompress((GOLDENS / "tokenizer_plamo.json.xz").read_bytes()))
    tokenizer = restored(golden["vocab"])
    check(tokenizer, golden)
    for text, _, plain in golden["cases"]:
        assert tokenizer.decode(plain) == text.removeprefix("\ufeff")
    assert tokenizer.encode("<|plamo:eos|>") == [2]
    assert 2 not in tokenizer.encode("<|plamo:eos|>", parse_special=False)
    assert tokenizer.encode("\ufeffa", parse_special=False) == tokenizer.encode("a")


def check_model(name: str, path: Path) -> None:
    golden = MODELS[name]
    tokenizer = load_tokenizer(open_gguf(path).metadata)
    check(tokenizer, golden)
    for text, *_ in golden["cases"]:
        if "\u2581" not in text:  # SentencePiece cannot tell it from a space
            assert tokenizer.decode(tokenizer.encode(text, add_special=False), special=True) == text
    digest = hashlib.sha256()
    for special in (False, True):
        for token in range(tokenizer.size):
            piece = tokenizer.piece(token, special)
            digest.update(b"%d:" % len(piece) + piece)
    assert digest.hexdigest() == golden["pieces"]


@pytest.mark.model_file
def test_smollm2(smollm2_path: Path) -> None:
    check_model("smollm2", smollm2_path)


@pytest.mark.model_file
def test_gemma3(gemma3_path: Path) -> None:
    check_model("gemma", gemma3_path)
