"""Cutting text where no token can reach across, so that each word is merged once and kept."""

import re
from collections.abc import Callable, Iterable

Pause = Callable[[], None]
"""Called again and again while a long text is tokenised; what it raises ends that."""
PAUSE_EVERY = 2048
"""Pieces, or words, between two pauses: some milliseconds."""

SPACE = "\u2581"  # how SentencePiece writes a space

# Words this long are rarely met again, and this many kept ones are enough for any text.
_LONGEST = 64
_KEPT = 1 << 16


def no_pause() -> None:
    """For texts that nobody waits for."""


class WordCache:
    """Ids by word, made by `encode` the first time a word is met."""

    def __init__(self, encode: Callable[[str, Pause], Iterable[int]]) -> None:
        self._encode = encode
        self._known: dict[str, list[int]] = {}

    def ids(self, words: Iterable[str], pause: Pause) -> list[int]:
        """The ids of all `words`, one after the other."""
        ids: list[int] = []
        known = self._known
        for count, word in enumerate(words, 1):
            if count % PAUSE_EVERY == 0:
                pause()
            found = known.get(word)
            if found is None:
                if len(word) > _LONGEST:
                    ids += self._encode(word, pause)
                    continue
                if len(known) >= _KEPT:
                    known.clear()
                found = known[word] = list(self._encode(word, pause))
            ids += found
        return ids


def space_cutter(units: Iterable[str]) -> "re.Pattern[str]":
    """A pattern matching where a text may be cut before a space without changing its tokens.

    `units` are all texts that merging can make. A cut between a character and a space is safe
    where no unit holds these two side by side.
    """
    inner = (unit for unit in units if unit.rfind(SPACE) > 0)
    before = {unit[m.start() - 1] for unit in inner for m in re.finditer(SPACE, unit) if m.start()}
    kept = re.escape("".join(sorted(before | {SPACE})))
    return re.compile(f"(?<=[^{kept}])(?={SPACE})")
