"""Byte-pair encoding, `tokenizer.ggml.model` = "gpt2" or "gemma4": merges by their rank."""

import re
from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from engine.errors import BadFile
from engine.gguf.metadata import Metadata
from engine.gguf.values import Array
from engine.tokenizer.merge import merge
from engine.tokenizer.patterns import PreTokenizer
from engine.tokenizer.strings import Strings
from engine.tokenizer.vocab import Vocab
from engine.tokenizer.words import SPACE, Pause, WordCache, no_pause, space_cutter


def _letters() -> dict[int, str]:
    """GPT-2's printable letter of each byte: itself, or one from U+0100 on, in order."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return {byte: chr(byte if byte in printable else next(others)) for byte in range(256)}


LETTERS = _letters()
BYTES = {letter: byte for byte, letter in LETTERS.items()}

_SHORT = 256


class BytePairs:
    """Tokens of text without special tokens."""

    def __init__(self, vocab: Vocab, pre: PreTokenizer, merges: Strings) -> None:
        broken = _not_two(merges)
        if broken.size:
            rule = merges[broken[0]]
            raise BadFile(vocab.path, f"'tokenizer.ggml.merges' has {rule!r}, not two pieces")
        self._vocab = vocab
        self._pre = pre
        self._merges = merges
        self._words = WordCache(self._word)

    def encode(self, text: str, pause: Pause = no_pause) -> list[int]:
        """The ids of `text`; bytes without a token are left out."""
        if self._pre.byte_letters:
            return self._words.ids(self._pre.words(text), pause)
        words = self._pre.words(text.replace(" ", SPACE))
        if len(text) < _SHORT:
            return self._words.ids(words, pause)
        return self._words.ids((part for word in words for part in self._cuts.split(word)), pause)

    def spelt(self, text: str) -> bytes:
        """The text in the letters of the vocabulary; every token stands for some of them."""
        if not self._pre.byte_letters:
            return text.replace(" ", SPACE).encode()
        return text.encode().decode("latin-1").translate(LETTERS).encode()

    @property
    def left_out(self) -> bytes | None:
        """Letters, as `spelt`, that have no token of their own; None where any may be left out."""
        if self._pre.byte_letters:
            return "".join(one for one in LETTERS.values() if self._vocab.id(one) is None).encode()
        return None if None in self._vocab.byte_ids else b""

    def text_bytes(self, text: str) -> bytes:
        """Return the bytes of a normal token."""
        if not self._pre.byte_letters:
            return text.replace(SPACE, " ").encode()
        try:
            return bytes(map(BYTES.__getitem__, text))
        except KeyError:  # an added token, written as it is
            return text.encode()

    @cached_property
    def _cuts(self) -> "re.Pattern[str]":
        return space_cutter(rule.replace(" ", "") for rule in self._merges.holding(SPACE))

    def _word(self, word: str, pause: Pause) -> Iterator[int]:
        whole = word
        if self._pre.byte_letters:
            whole = word.encode().decode("latin-1").translate(LETTERS)
        # A run of newlines is taken whole for Gemma 4: its merges have none.
        if self._pre.ignore_merges or not (self._pre.byte_letters or word.strip("\n")):
            token = self._vocab.id(whole)
            if token is not None:
                yield token
                return
        known: dict[str, list[int]] = {}  # a number for each token of a long word takes memory
        for piece in merge(whole, self._rank, pause):
            if piece not in known:
                token = self._vocab.id(piece)
                known[piece] = self._parts(piece) if token is None else [token]
            yield from known[piece]

    def _rank(self, left: str, right: str) -> int | None:
        return self._merges.find(f"{left} {right}")

    def _parts(self, piece: str) -> list[int]:
        if self._pre.byte_letters:
            tokens = [self._vocab.id(letter) for letter in piece]
        else:
            tokens = [self._vocab.id(f"<0x{byte:02X}>") for byte in piece.encode()]
        return [token for token in tokens if token is not None]


def byte_pairs(meta: Metadata, vocab: Vocab, pre: PreTokenizer) -> BytePairs:
    """The encoder of a file; BadFile where its merges are missing or malformed."""
    # Of a merge listed twice the first rank counts.
    merges = Strings.read(meta.get("tokenizer.ggml.merges", Array), first=True)
    return BytePairs(vocab, pre, merges)


def _not_two(merges: Strings) -> NDArray[np.intp]:
    """Indices of rules without a space behind their first byte."""
    spaces = np.flatnonzero(np.frombuffer(merges.data, np.uint8) == ord(" "))
    bounds = np.asarray(merges.bounds)
    found = np.searchsorted(spaces, bounds[1:]) > np.searchsorted(spaces, bounds[:-1] + 1)
    return np.flatnonzero(~found)
