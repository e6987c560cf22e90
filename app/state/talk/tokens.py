"""The tokens of an answer with what else could have come, in columns: 20,000 of them are 2 MB."""

import sys
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from math import nan
from typing import Self

import msgspec

from engine.protocol import Alternative, TokenInfo

LONGEST_TOKEN = 10_000  # characters
ROUNDING = 1e-3  # that log-probabilities may be above 0
NONE = -1  # fills a row of alternatives that is shorter than the others


class TokenData(msgspec.Struct, frozen=True):
    """How tokens are kept: little-endian columns, ids and ends i32, log-probabilities f32.

    `top_ids` and `top_logprobs` have `k` entries per token. `texts` maps an id to its text,
    `drafts` a token's index to its source and what was drafted instead, as in `TokenInfo`.
    """

    begin: int
    k: int
    ids: bytes
    ends: bytes
    logprobs: bytes
    top_ids: bytes
    top_logprobs: bytes
    texts: dict[int, str]
    drafts: dict[int, tuple[str, str]] = {}


class Tokens:
    """Tokens in order; `end(i)` is where token i ends in the message's text, in characters.

    They may cover only the text from `begin` on, where its beginning came without tokens.
    """

    def __init__(self, begin: int = 0) -> None:
        self.begin = begin
        self._k = 0
        self._ids, self._ends, self._top_ids = array("i"), array("i"), array("i")
        self._logprobs, self._top_logprobs = array("f"), array("f")
        self._texts: dict[int, str] = {}
        self._drafts: dict[int, tuple[str, str]] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: int) -> TokenInfo:
        """Raises IndexError. `logprob` is None where none was requested."""
        index = range(len(self))[index]
        token, logprob = self._ids[index], self._logprobs[index]
        row = range(index * self._k, (index + 1) * self._k)
        top = [
            Alternative(other, self._texts.get(other, ""), self._top_logprobs[n])
            for n in row
            if (other := self._top_ids[n]) != NONE
        ]
        known = None if logprob != logprob else logprob
        source, drafted = self._drafts.get(index, ("", ""))
        text = self._texts.get(token, "")
        return TokenInfo(token, known, text, top, source=source, drafted=drafted)

    @property
    def ids(self) -> list[int]:
        """All ids."""
        return self._ids.tolist()

    def logprob(self, index: int) -> float | None:
        """Natural log-probability; cheaper than the whole token."""
        logprob = self._logprobs[index]
        return None if logprob != logprob else logprob

    def start(self, index: int) -> int:
        """Where token `index` begins in the text."""
        return self._ends[index - 1] if index else self.begin

    def end(self, index: int) -> int:
        """Where token `index` ends in the text."""
        return self._ends[index]

    def at(self, position: int) -> int | None:
        """The token that covers a position of the text; None where there is none."""
        if position < self.begin:
            return None
        index = bisect_right(self._ends, position)
        return index if index < len(self) else None

    def append(self, infos: Sequence[TokenInfo], end: int) -> None:
        """Tokens that complete the text up to `end`."""
        for n, info in enumerate(infos):
            if info.top and not self._k:
                self._k = len(info.top)
                self._top_ids.extend([NONE] * (self._k * len(self)))
                self._top_logprobs.extend([nan] * (self._k * len(self)))
            if info.source:
                self._drafts[len(self)] = info.source, info.drafted
            self._ids.append(info.token)
            self._ends.append(end if n == len(infos) - 1 else self.start(len(self._ends)))
            self._logprobs.append(nan if info.logprob is None else info.logprob)
            self._texts[info.token] = info.text
            top = info.top[: self._k]
            missing = self._k - len(top)
            self._top_ids.extend([a.token for a in top] + [NONE] * missing)
            self._top_logprobs.extend([a.logprob for a in top] + [nan] * missing)
            self._texts.update((a.token, a.text) for a in top)

    def extend_last(self, end: int) -> None:
        """The last token turned out to reach up to `end`."""
        if self._ends:
            self._ends[-1] = end

    def first(self, n: int) -> Self:
        """A copy of the first `n`."""
        copy = type(self)(self.begin)
        copy._k, copy._texts = self._k, dict(self._texts)
        copy._drafts = {index: one for index, one in self._drafts.items() if index < n}
        copy._ids, copy._ends, copy._logprobs = self._ids[:n], self._ends[:n], self._logprobs[:n]
        copy._top_ids = self._top_ids[: n * self._k]
        copy._top_logprobs = self._top_logprobs[: n * self._k]
        return copy

    def data(self) -> TokenData:
        """The columns as they are kept."""
        return TokenData(
            self.begin,
            self._k,
            _bytes(self._ids),
            _bytes(self._ends),
            _bytes(self._logprobs),
            _bytes(self._top_ids),
            _bytes(self._top_logprobs),
            self._texts,
            self._drafts,
        )

    @classmethod
    def of(cls, data: TokenData) -> Self:
        """From what was kept; ValueError where the columns do not fit together."""
        if not 0 <= data.begin < 1 << 31 or not 0 <= data.k < 1 << 31:
            raise ValueError(f"begin {data.begin} or k {data.k} is out of range")
        made = cls(data.begin)
        made._k, made._texts, made._drafts = data.k, dict(data.texts), dict(data.drafts)
        for column, kept in (
            (made._ids, data.ids),
            (made._ends, data.ends),
            (made._logprobs, data.logprobs),
            (made._top_ids, data.top_ids),
            (made._top_logprobs, data.top_logprobs),
        ):
            column.frombytes(kept)
            if sys.byteorder == "big":
                column.byteswap()
        n = len(made._ids)
        lengths = [len(c) for c in (made._ends, made._logprobs)]
        tops = [len(c) for c in (made._top_ids, made._top_logprobs)]
        if lengths != [n] * 2 or tops != [n * data.k] * 2:
            raise ValueError(f"columns of {n} tokens differ in length")
        return made

    def check(self, length: int) -> None:
        """ValueError where they cannot be the tokens of a text of `length` characters."""
        bounds = [self.begin, *self._ends, length]
        if bounds[0] < 0 or any(a > b for a, b in pairwise(bounds)):
            raise ValueError(f"tokens end outside the text of {length} characters")
        if any(token < 0 for token in self._ids) or any(t < NONE for t in self._top_ids):
            raise ValueError("a token's id is below 0")
        tops = zip(self._top_ids, self._top_logprobs, strict=True)
        if any(p > ROUNDING for p in self._logprobs) or any(
            token != NONE and not p <= ROUNDING for token, p in tops
        ):
            raise ValueError("a log-probability is above 0")
        if any(not 0 <= token < 1 << 31 for token in self._texts):
            raise ValueError("a text belongs to no token's id")
        if any(not 0 <= index < len(self) for index in self._drafts):
            raise ValueError("a draft belongs to no token")
        texts = [*self._texts.values(), *(t for both in self._drafts.values() for t in both)]
        if any(len(text) > LONGEST_TOKEN for text in texts):
            raise ValueError(f"a token has more than {LONGEST_TOKEN} characters")


def _bytes(column: "array[int] | array[float]") -> bytes:
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column.tobytes()
