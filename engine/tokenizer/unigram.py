"""Unigram, `tokenizer.ggml.model` = "t5": the tokens whose scores have the largest sum.

Kudo 2018, as SentencePiece does it: the best path over all ways to cut a word.
"""

import re
from functools import cached_property
from math import inf

import numpy as np

from engine.errors import BadFile
from engine.gguf.metadata import Metadata
from engine.gguf.values import Array
from engine.tokenizer.vocab import TokenType, Vocab
from engine.tokenizer.words import (
    PAUSE_EVERY,
    SPACE,
    Pause,
    WordCache,
    no_pause,
    space_cutter,
)

_LEAF = 1 << 8
_LABEL = (1 << 31) | 0xFF
_VALUE = (1 << 31) - 1


class CharsMap:
    """Replacements of the longest known beginnings."""

    def __init__(self, path: str, blob: bytes) -> None:
        size = int.from_bytes(blob[:4], "little")
        if len(blob) < 4 or size % 4 or not 4 <= size < len(blob) - 4:
            problem = f"'tokenizer.ggml.precompiled_charsmap' of {len(blob)} bytes is cut off"
            raise BadFile(path, problem)
        self._path = path
        self._units = np.frombuffer(blob, "<u4", size // 4, 4).tolist()
        self._texts = blob[4 + size :]

    def normalised(self, text: str) -> str:
        """`text` with every replacement made; what has none stays. BadFile where the map is wrong
        there.
        """
        data = text.encode()
        parts: list[bytes] = []
        at = 0
        while at < len(data):
            new, end = self._longest(data, at)
            if new is None:
                end = at + _width(data[at])
                new = data[at:end]
            parts.append(new)
            at = end
        return b"".join(parts).decode("utf-8", "replace")

    def _longest(self, data: bytes, start: int) -> tuple[bytes | None, int]:
        """Return the replacement of the longest key in `data` at `start`, and the key's end."""
        found: tuple[int | None, int] = (None, start)
        node = _offset(self._unit(0))
        for end in range(start, len(data)):
            node ^= data[end]
            unit = self._unit(node)
            if not data[end] or unit & _LABEL != data[end]:
                break
            node ^= _offset(unit)
            if unit & _LEAF:
                found = (self._unit(node) & _VALUE, end + 1)
        return (None if found[0] is None else self._text(found[0])), found[1]

    def _unit(self, index: int) -> int:
        if index >= len(self._units):
            raise self._broken(f"unit {index} of {len(self._units)}")
        unit: int = self._units[index]
        return unit

    def _text(self, start: int) -> bytes:
        end = self._texts.find(b"\0", start)
        if end < 0:
            raise self._broken(f"no text ends after {start}")
        return self._texts[start:end]

    def _broken(self, what: str) -> BadFile:
        return BadFile(self._path, f"'tokenizer.ggml.precompiled_charsmap' is broken: {what}")


def _offset(unit: int) -> int:
    return (unit >> 10) << ((unit & (1 << 9)) >> 6)


def _width(byte: int) -> int:
    """Bytes of the UTF-8 character that begins so."""
    return 1 if byte < 0xC0 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4


UNKNOWN_BELOW = 10.0
"""How far the score of an unknown character lies below the worst token's."""

_MATCHED = (TokenType.NORMAL, TokenType.USER_DEFINED, TokenType.UNUSED)


class Unigram:
    """Tokens of text without special tokens; spaces are U+2581 within."""

    def __init__(
        self, vocab: Vocab, charsmap: CharsMap | None, *, space_prefix: bool, merges_spaces: bool
    ) -> None:
        if not len(vocab.scores):
            raise BadFile(vocab.path, "metadata has no 'tokenizer.ggml.scores'; a t5 one needs it")
        self._vocab, self._charsmap = vocab, charsmap
        self._space_prefix, self._merges_spaces = space_prefix, merges_spaces
        scores = np.asarray(vocab.scores)[vocab.of_type(TokenType.NORMAL)]
        self._unknown_score = float(scores.min() if scores.size else 0.0) - UNKNOWN_BELOW
        self._words = WordCache(self._word)

    def encode(self, text: str, pause: Pause = no_pause) -> list[int]:
        """The ids of `text`; unknown characters side by side are one unknown token."""
        words = self._cuts.split(self.normalised(text))
        ids: list[int] = []
        for token in self._words.ids(words, pause):
            if token != self._vocab.unknown or ids[-1:] != [token]:
                ids.append(token)
        return ids

    def text_bytes(self, text: str) -> bytes:
        """Return the bytes of a normal token."""
        return text.replace(SPACE, " ").encode()

    def normalised(self, text: str) -> str:
        """The text that is cut: characters by the file's map, spaces as it wants them."""
        if self._charsmap is not None:
            text = self._charsmap.normalised(text)
        if self._merges_spaces:
            return "".join(SPACE + word for word in text.split(" ") if word)
        prefix = SPACE if self._space_prefix and text.strip(" ") else ""
        return prefix + text.replace(" ", SPACE)

    @cached_property
    def _lengths(self) -> dict[str, list[int]]:
        """How long tokens are that begin with a character, rising."""
        lengths: dict[str, set[int]] = {}
        for token in self._vocab.of_type(*_MATCHED):
            text = self._vocab.texts[token]
            if text:
                lengths.setdefault(text[0], set()).add(len(text))
        return {first: sorted(found) for first, found in lengths.items()}

    @cached_property
    def _cuts(self) -> "re.Pattern[str]":
        return space_cutter(self._vocab.texts.holding(SPACE))

    def _word(self, word: str, pause: Pause) -> list[int]:
        """The best path: `best[i]` is the score of the first i characters, and its last token."""
        best: list[tuple[float, int, int | None]] = [(0.0, 0, None)]
        best += [(-inf, 0, None)] * len(word)
        for start, first in enumerate(word):
            if start % PAUSE_EVERY == PAUSE_EVERY - 1:
                pause()
            score, alone = best[start][0], False
            for length in self._lengths.get(first, ()):
                end = start + length
                token = self._token(word[start:end]) if end <= len(word) else None
                if token is not None:
                    alone = alone or length == 1
                    if score + self._score(token) > best[end][0]:
                        best[end] = (score + self._score(token), start, token)
            if not alone and score + self._unknown_score > best[start + 1][0]:
                best[start + 1] = (score + self._unknown_score, start, self._vocab.unknown)
        ids, end = [], len(word)
        while end:
            _, end, chosen = best[end]
            if chosen is not None:
                ids.append(chosen)
        return ids[::-1]

    def _token(self, text: str) -> int | None:
        token = self._vocab.id(text)
        return token if token is not None and self._vocab.types[token] in _MATCHED else None

    def _score(self, token: int) -> float:
        defined = self._vocab.types[token] == TokenType.USER_DEFINED
        return 0.0 if defined else float(self._vocab.scores[token])


def unigram(meta: Metadata, vocab: Vocab) -> Unigram:
    """The encoder of a file; BadFile where scores are missing or its map is broken."""
    blob = meta.get("tokenizer.ggml.precompiled_charsmap", Array, None)
    return Unigram(
        vocab,
        None if blob is None else CharsMap(meta.path, blob.ints().astype(np.uint8).tobytes()),
        space_prefix=meta.get("tokenizer.ggml.add_space_prefix", bool, False),
        merges_spaces=meta.get("tokenizer.ggml.remove_extra_whitespaces", bool, False),
    )
