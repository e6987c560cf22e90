"""Merging neighbours by priority, which SentencePiece and byte-pair encoding share; and
SentencePiece BPE (`tokenizer.ggml.model` = "llama"): the best-scored neighbours merge first.
"""

import heapq
import re
from array import array
from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np

from engine.errors import BadFile
from engine.tokenizer.vocab import Vocab
from engine.tokenizer.words import PAUSE_EVERY, SPACE, Pause, WordCache, no_pause, space_cutter

# The priority of joining two neighbouring pieces, the smallest first; None where they do not join.
Priority = Callable[[str, str], int | None]

_NEVER = -(1 << 62)  # no priority


PART = 1 << 16
"""Characters that are merged at once, which takes some 70 bytes for each."""
_SEAM = 32  # pieces before the end of a part, where the next one begins


def merge(text: str, priority: Priority, pause: Pause = no_pause) -> Iterator[str]:
    """Yield the pieces of `text`: its characters, joined pairwise while `priority` allows.

    Among equal priorities the leftmost pair goes first. O(n log n) time. What `pause` raises ends
    it. A text longer than PART is merged in parts that overlap. Pieces are those of the whole text
    where any two neighbours are the pieces of the two together, so two parts may be joined at a
    piece that both have: before it nothing changes the first, behind it nothing the second.
    """
    begin, size = 0, PART
    pieces = _merged(text[:size], priority, pause)
    while begin + size < len(text):
        seam = len(pieces) - min(_SEAM, len(pieces) // 2)
        begin_of_next = begin + sum(map(len, pieces[:seam]))
        following = _merged(text[begin_of_next : begin_of_next + PART], priority, pause)
        if seam and following[0] == pieces[seam]:
            yield from pieces[:seam]
            begin, size, pieces = begin_of_next, PART, following
        else:  # of rules that no training has made: more at once
            size *= 2
            pieces = _merged(text[begin : begin + size], priority, pause)
    yield from pieces


def _merged(text: str, priority: Priority, pause: Pause) -> list[str]:
    """The pieces of a text that is merged at once."""
    pieces = list(text)
    size = len(pieces)
    if size < 2:
        return pieces
    left, right = array("i", range(-1, size - 1)), array("i", range(1, size + 1))
    right[-1] = -1
    pairs = _Pairs(size)
    for i in range(size - 1):
        pairs.put(i, priority(pieces[i], pieces[i + 1]))
        if i % PAUSE_EVERY == PAUSE_EVERY - 1:
            pause()

    count = 0
    while (i := pairs.take()) >= 0:
        count += 1
        if count % PAUSE_EVERY == 0:
            pause()
        j = right[i]
        pieces[i] += pieces[j]
        pieces[j] = ""
        pairs.put(j, None)
        before, after = left[i], right[j]
        right[i] = after
        if after >= 0:
            left[after] = i
            pairs.put(i, priority(pieces[i], pieces[after]))
        if before >= 0:
            pairs.put(before, priority(pieces[before], pieces[i]))
    return [piece for piece in pieces if piece]


class _Pairs:
    """Pairs of neighbours that may be joined, by the place of the left one."""

    def __init__(self, size: int) -> None:
        self._orders = array("q", [_NEVER]) * size  # the priority of each pair
        self._places: dict[int, list[int]] = {}  # heaps, by priority
        self._queue: list[int] = []  # a heap of these priorities

    def put(self, i: int, order: int | None) -> None:
        """The pair at `i` has another priority now."""
        if order is None:
            self._orders[i] = _NEVER
            return
        self._orders[i] = order
        if order in self._places:
            heapq.heappush(self._places[order], i)
        else:
            self._places[order] = [i]
            heapq.heappush(self._queue, order)

    def take(self) -> int:
        """The place of the best pair, of equal ones the leftmost, which is no pair any more; -1
        where there is none.
        """
        while self._queue:
            order = self._queue[0]
            places = self._places[order]
            while places:
                i = heapq.heappop(places)
                if self._orders[i] == order:  # or one of the two was joined meanwhile
                    self._orders[i] = _NEVER
                    return i
            del self._places[heapq.heappop(self._queue)]
        return -1


# Looking through the vocabulary for safe cuts pays from this many characters on.
_SHORT = 256


class SentencePiece:
    """Tokens of text without special tokens; spaces are U+2581 within."""

    def __init__(self, vocab: Vocab) -> None:
        if not len(vocab.scores):
            raise BadFile(
                vocab.path, "metadata has no 'tokenizer.ggml.scores'; a llama one needs it"
            )
        self._vocab = vocab
        # The best score first; equal ones are equal.
        ranks = np.unique(-np.asarray(vocab.scores, np.float64), return_inverse=True)[1]
        self._ranks = array("I", ranks.astype(np.uint32).tobytes())
        self._words = WordCache(self._word)

    def encode(self, text: str, pause: Pause = no_pause) -> list[int]:
        """The ids of `text`; characters without a token become bytes `<0xHH>`."""
        text = text.replace(" ", SPACE)
        if len(text) < _SHORT:
            return list(self._word(text, pause))
        return self._words.ids(self._cuts.split(text), pause)

    def spelt(self, text: str) -> bytes:
        """The text in the letters of the vocabulary; every token stands for some of them."""
        return text.replace(" ", SPACE).encode()

    @property
    def left_out(self) -> bytes | None:
        """Letters, as `spelt`, that may have no token; None where any may be left out."""
        return None if None in self._vocab.byte_ids else b""

    def text_bytes(self, text: str) -> bytes:
        """Return the bytes of a normal token."""
        return text.replace(SPACE, " ").encode()

    @cached_property
    def _cuts(self) -> "re.Pattern[str]":
        return space_cutter(self._vocab.texts.holding(SPACE))

    def _word(self, word: str, pause: Pause) -> Iterator[int]:
        known: dict[str, list[int]] = {}  # a number for each token of a long word takes memory
        for piece in merge(word, self._priority, pause):
            if piece not in known:
                known[piece] = self._ids(piece)
            yield from known[piece]

    def _ids(self, piece: str) -> list[int]:
        token = self._vocab.id(piece)
        if token is not None:
            return [token]
        byte_ids = (self._vocab.byte_ids[byte] for byte in piece.encode())
        return [token for token in byte_ids if token is not None]

    def _priority(self, left: str, right: str) -> int | None:
        token = self._vocab.texts.find(left + right)
        return None if token is None else self._ranks[token]
