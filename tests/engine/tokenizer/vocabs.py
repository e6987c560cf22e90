"""Vocabularies for tests, as metadata that was never a file."""

import struct
from array import array
from typing import Any

import numpy as np

from engine.gguf.metadata import Metadata, MetadataEntry
from engine.gguf.values import Array, ValueType

_SCALARS = {bool: ValueType.BOOL, int: ValueType.UINT32, float: ValueType.FLOAT32}


def metadata(values: dict[str, Any]) -> Metadata:
    """Keys and Python values as a file would give them; lists are arrays of strings or numbers."""
    return Metadata("test.gguf", {key: _entry(key, value) for key, value in values.items()})


def _entry(key: str, value: Any) -> MetadataEntry:
    if isinstance(value, str):
        return MetadataEntry(ValueType.STRING, memoryview(value.encode()))
    if isinstance(value, list):
        return MetadataEntry(ValueType.ARRAY, _array(key, value))
    return MetadataEntry(_SCALARS[type(value)], value)


def _array(key: str, values: list[Any]) -> Array:
    if not values or isinstance(values[0], str):
        blobs = [struct.pack("<Q", len(text.encode())) + text.encode() for text in values]
        ends = np.cumsum([len(blob) for blob in blobs], dtype=np.int64).tolist()
        starts = array("q", [0, *ends][: len(blobs)])
        data = memoryview(b"".join(blobs))
        return Array("test.gguf", key, ValueType.STRING, len(values), data, "<", starts)
    floats = any(isinstance(value, float) for value in values)
    kind, dtype = (ValueType.FLOAT32, "<f4") if floats else (ValueType.INT32, "<i4")
    data = memoryview(np.array(values, dtype).tobytes())
    return Array("test.gguf", key, kind, len(values), data, "<")


BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]


def sentence_piece(words: dict[str, float], **values: Any) -> Metadata:
    """A SentencePiece vocabulary: <unk> <s> </s>, the bytes, and `words` with their scores."""
    texts = ["<unk>", "<s>", "</s>", *BYTE_TOKENS, *words]
    return metadata(
        {
            "tokenizer.ggml.model": "llama",
            "tokenizer.ggml.tokens": texts,
            "tokenizer.ggml.scores": [0.0] * 259 + list(words.values()),
            "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, *[1] * len(words)],
            **{f"tokenizer.ggml.{key}": value for key, value in values.items()},
        }
    )


def byte_pairs(merges: list[str], special: list[str] = [], **values: Any) -> Metadata:  # noqa: B006
    """A byte-level vocabulary: the letters of bytes, what `merges` make, control tokens."""
    from engine.tokenizer.bpe import LETTERS

    texts = [*LETTERS.values(), *(rule.replace(" ", "") for rule in merges), *special]
    return metadata(
        {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": "gpt-2",
            "tokenizer.ggml.tokens": texts,
            "tokenizer.ggml.token_type": [1] * (len(texts) - len(special)) + [3] * len(special),
            "tokenizer.ggml.merges": merges,
            **{f"tokenizer.ggml.{key}": value for key, value in values.items()},
        }
    )


def longest_matches(words: list[str]) -> Metadata:
    """A vocabulary of RWKV: <s>, the bytes, and `words`, as the file escapes them."""
    texts = ["<s>", *(repr(bytes([byte]))[2:-1] for byte in range(256)), *words]
    return metadata(
        {
            "tokenizer.ggml.model": "rwkv",
            "tokenizer.ggml.tokens": texts,
            "tokenizer.ggml.token_type": [3, *[1] * (len(texts) - 1)],
            "tokenizer.ggml.bos_token_id": 0,
            "tokenizer.ggml.eos_token_id": 0,
        }
    )


def cheapest_paths(words: dict[str, float]) -> Metadata:
    """A vocabulary of PLaMo 2: three control tokens, the bytes, and `words` with their scores."""
    texts = ["<|plamo:unk|>", "<|plamo:bos|>", "<|plamo:eos|>", *BYTE_TOKENS, *words]
    return metadata(
        {
            "tokenizer.ggml.model": "plamo2",
            "tokenizer.ggml.tokens": texts,
            "tokenizer.ggml.scores": [0.0] * 259 + list(words.values()),
            "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, *[1] * len(words)],
        }
    )
