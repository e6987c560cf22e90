"""Two answers word by word: where they part, how likely each model finds each word."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class ScoredTokens:
    """A text as a model's tokens: token i ends before character `ends[i]` and has the natural
    log-probability `logprobs[i]`, NaN where that is not known.
    """

    ends: Sequence[int]
    logprobs: Sequence[float] | Floats


@dataclass(frozen=True)
class ComparedWord:
    """Characters `start` to `end` of an answer, with natural log-probabilities by the model that
    wrote it and by the other one; NaN where one is not known.
    """

    start: int
    end: int
    own: float
    other: float


def compared_words(begin: int, own: ScoredTokens, other: ScoredTokens | None) -> list[ComparedWord]:
    """The smallest parts of a text that begin and end between tokens of both models.

    The log-probabilities of a part's tokens are added: by the chain rule that is the part's own.
    `begin` is where the first token begins. Without `other` each token is a part.
    """
    common = set(own.ends) if other is None else set(own.ends) & set(other.ends)
    bounds = sorted(end for end in common if end > begin)
    of_own = _sums(own, bounds)
    of_other = [nan] * len(bounds) if other is None else _sums(other, bounds)
    starts = [begin, *bounds][: len(bounds)]
    rows = zip(starts, bounds, of_own, of_other, strict=True)
    return [ComparedWord(*row) for row in rows]


def parting(
    texts: tuple[str, str], words: tuple[Sequence[ComparedWord], Sequence[ComparedWord]]
) -> tuple[int, int] | None:
    """The index of the first word of each answer that differs; its number of words where an answer
    has ended there. None where the texts are equal.
    """
    if texts[0] == texts[1]:
        return None
    pairs = zip(*texts, strict=False)
    n = next((i for i, (a, b) in enumerate(pairs) if a != b), min(map(len, texts)))
    first, second = (bisect_right([word.end for word in side], n) for side in words)
    return first, second


def character_ends(text: str, pieces: Sequence[bytes]) -> list[int] | None:
    """Where the pieces of a tokenised text end, in characters; one that ends within a character
    ends before it. None where the pieces are not the text, but for a space that a tokenizer puts
    before it.
    """
    data = text.encode("utf-8", "surrogatepass")
    joined = b"".join(pieces)
    extra = len(joined) - len(data)
    if joined[max(0, extra) :] != data or joined[: max(0, extra)].strip(b" "):
        return None
    begins = np.flatnonzero((np.frombuffer(data, np.uint8) & 0xC0) != 0x80)
    ends = np.cumsum([len(piece) for piece in pieces]) - extra
    # Characters that begin before a byte, less the one that the byte is within.
    before = np.searchsorted(begins, np.maximum(ends, 0), "left")
    whole = np.isin(ends, begins) | (ends >= len(data))
    return [max(0, int(n) - (not w)) for n, w in zip(before, whole, strict=True)]


def _sums(tokens: ScoredTokens, bounds: Sequence[int]) -> list[float]:
    """The log-probabilities of the tokens that end in each part, added."""
    sums = [0.0] * len(bounds)
    part = 0
    for end, logprob in zip(tokens.ends, tokens.logprobs, strict=True):
        while part < len(bounds) and end > bounds[part]:
            part += 1
        if part < len(bounds):
            sums[part] += float(logprob)
    return sums
