"""A lower bound on the tokens of a text, so that one that cannot fit is refused before it is cut.

A token that stands for L letters has no letter whose longest token is shorter than L. So each
letter counts one by the length of the longest token that has it, and the sum is at most the number
of tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from engine.tokenizer.vocab import TokenType, Vocab

_AS_WRITTEN = (TokenType.CONTROL, TokenType.UNKNOWN, TokenType.USER_DEFINED)
_SPACES = " \t\n\v\f\r"


@runtime_checkable
class Spelling(Protocol):
    """An encoder that changes no text before it is cut, but for how letters are written."""

    @property
    def left_out(self) -> bytes | None: ...
    def spelt(self, text: str) -> bytes: ...


@dataclass(frozen=True)
class LetterWeights:
    """The share of a token that each byte of a spelt text takes at least."""

    spelt: Callable[[str], bytes]
    of_bytes: NDArray[np.float64]


def letter_weights(vocab: Vocab, encoder: object, swallows: bool) -> LetterWeights | None:
    """Those of a vocabulary; None for an encoder that may leave any letter out. Letters without a
    token count nothing, nor do spaces where special tokens swallow them.
    """
    left_out = encoder.left_out if isinstance(encoder, Spelling) else None
    if not isinstance(encoder, Spelling) or left_out is None:
        return None
    data, bounds = np.frombuffer(vocab.texts.data, np.uint8), np.asarray(vocab.texts.bounds)
    sizes = (bounds[1:] - bounds[:-1]).astype(np.int64)
    longest = np.ones(256, np.int64)
    np.maximum.at(longest, data, np.repeat(sizes, sizes))
    for token in vocab.of_type(*_AS_WRITTEN):  # their texts are not spelt in the file
        spelt = np.frombuffer(encoder.spelt(vocab.texts[token]), np.uint8)
        np.maximum.at(longest, spelt, spelt.size)
    weights = 1.0 / longest
    nothing = left_out + (encoder.spelt(_SPACES) if swallows else b"")
    weights[np.frombuffer(nothing, np.uint8)] = 0.0
    return LetterWeights(encoder.spelt, weights)
