"""Longest matches, `tokenizer.ggml.model` = "rwkv": at each byte the longest token that is there.

Peng et al. 2023, RWKV World. A file writes tokens as Python writes bytes: what is no printed ASCII
is escaped.
"""

import re
from functools import cached_property

from engine.tokenizer.vocab import TokenType, Vocab
from engine.tokenizer.words import PAUSE_EVERY, Pause, no_pause

_ESCAPE = re.compile(rb"\\(x[0-9a-f]{2}|.)", re.DOTALL)
_LETTERS = {b"t": b"\t", b"n": b"\n", b"r": b"\r"}
_START = 2
"""Bytes by which tokens are found."""


class LongestMatch:
    """Tokens of text without special tokens."""

    def __init__(self, vocab: Vocab) -> None:
        self._vocab = vocab

    def encode(self, text: str, pause: Pause = no_pause) -> list[int]:
        """The ids of `text`; a byte without a token is unknown, or left out."""
        data, (ids, sizes) = text.encode(), self._tokens
        unknown = [] if self._vocab.unknown is None else [self._vocab.unknown]
        found: list[int] = []
        at, count = 0, 0
        while at < len(data):
            count += 1
            if count % PAUSE_EVERY == 0:
                pause()
            for size in sizes.get(data[at : at + _START], (1,)):
                token = ids.get(data[at : at + size])
                if token is not None:
                    found.append(token)
                    at += size
                    break
            else:
                found += unknown
                at += 1
        return found

    def text_bytes(self, text: str) -> bytes:
        """The bytes of a normal token."""
        return _ESCAPE.sub(_unescaped, text.encode())

    @cached_property
    def _tokens(self) -> tuple[dict[bytes, int], dict[bytes, tuple[int, ...]]]:
        """Normal tokens by their bytes, and by their first bytes how long such are, the longest
        first and 1 at last.
        """
        texts = self._vocab.texts
        ids = {self.text_bytes(texts[i]): i for i in self._vocab.of_type(TokenType.NORMAL)}
        sizes: dict[bytes, set[int]] = {}
        for token in ids:
            if len(token) >= _START:
                sizes.setdefault(token[:_START], {1}).add(len(token))
        return ids, {start: tuple(sorted(each, reverse=True)) for start, each in sizes.items()}


def _unescaped(match: "re.Match[bytes]") -> bytes:
    letter = match[1]
    if letter[:1] == b"x" and len(letter) > 1:
        return bytes.fromhex(letter[1:].decode())
    return _LETTERS.get(letter, letter)
