"""Where a part of a text's source stands in what is shown of it."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from app.widgets.tokens.lights import Light

NEAR = 400  # characters of source in which the next word is looked for: addresses of links are long
_ADDRESS = re.compile(r"(?<=\])\([^()]*(\([^()]*\))?[^()]*\)")  # of a link: not shown
_WORD = re.compile(r"[^\W_]+|[^\w\s]|_")


def shown_part(source: str, shown: str, first: int, last: int) -> tuple[int, int]:
    """The range of `shown` that is written from `source[first:last]`.

    Shown is the source without its marks, word after word. Where the part itself is not shown, such
    as a mark, it is the next word that is, or else the last.
    """
    source = _ADDRESS.sub(lambda address: " " * len(address[0]), source)
    begins = ends = None
    near = (0, 0)
    for place, found, length in _aligned(source, shown):
        if found >= last and begins is not None:
            break
        near = (place, place + length)
        if found >= last:
            break
        if found + length > first:
            begins = place + max(first - found, 0) if begins is None else begins
            ends = place + min(last - found, length)
    return near if begins is None or ends is None else (begins, ends)


def shown_parts(
    source: str, shown: str, parts: Sequence[tuple[int, int]]
) -> list[tuple[int, int] | None]:
    """Return the range in `shown` of each part of the source; None where nothing of it is shown."""
    pieces = _pieces(source, shown)
    ends = [found + length for _, found, length in pieces]
    ranges: list[tuple[int, int] | None] = []
    for first, last in parts:
        at = bisect_right(ends, first)
        begins = ends_at = None
        while at < len(pieces) and pieces[at][1] < last:
            place, found, length = pieces[at]
            begins = place + max(first - found, 0) if begins is None else begins
            ends_at = place + min(last - found, length)
            at += 1
        ranges.append(None if begins is None or ends_at is None else (begins, ends_at))
    return ranges


def source_of(source: str, shown: str, position: int) -> int:
    """Where in the source the word is that a position of `shown` is in, or the one before it."""
    source = _ADDRESS.sub(lambda address: " " * len(address[0]), source)
    nearest = 0
    for place, found, length in _aligned(source, shown):
        if place > position:
            break
        nearest = found + min(position - place, length - 1)
    return nearest


def units(text: str, position: int) -> int:
    """A position in characters as Qt counts it, in UTF-16 units."""
    return position if text.isascii() else units_of(text[:position])


def units_of(text: str) -> int:
    """The length of a text in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def characters(text: str, position: int) -> int:
    """The other way round."""
    if text.isascii():
        return position
    return len(text.encode("utf-16-le")[: 2 * position].decode("utf-16-le", "ignore"))


@lru_cache(64)
def _pieces(source: str, shown: str) -> list[tuple[int, int, int]]:
    """All of `_aligned`; requested again and again while other words of a text are lit."""
    source = _ADDRESS.sub(lambda address: " " * len(address[0]), source)
    return list(_aligned(source, shown))


def _aligned(source: str, shown: str) -> Iterator[tuple[int, int, int]]:
    """Words of both: where in `shown`, where in `source`, and how long.

    A word with marks inside goes letter by letter; what has no source, as an entity's character or
    the number of a list's item, is left out.
    """
    at = 0
    for word in _WORD.finditer(shown):
        found = _whole_word(source, word[0], at, at + NEAR + len(word[0]))
        if found >= 0:
            yield word.start(), found, len(word[0])
            at = found + len(word[0])
            continue
        for n, letter in enumerate(word[0]):
            place = source.find(letter, at, at + NEAR)
            if place >= 0:
                yield word.start() + n, place, 1
                at = place + 1


def _whole_word(source: str, word: str, start: int, end: int) -> int:
    """Where a word stands with no letter or digit beside it; -1 where it does not."""
    place = source.find(word, start, end)
    while place >= 0:
        behind = source[place + len(word) : place + len(word) + 1]
        if not (source[max(place - 1, 0) : place].isalnum() or behind.isalnum()):
            return place
        place = source.find(word, place + 1, end)
    return -1


Found = tuple[int, int, str]
"""A block's row, where its source begins in the text, and its source."""


class LitParts:
    """`block_at` finds the block that a position of the text is in.

    What is in a block is reckoned when it is first painted, and kept until `forget`.
    """

    def __init__(self, block_at: Callable[[int], Found | None]) -> None:
        self._block_at = block_at
        self.lights: Sequence[Light] = ()
        self._blocks: dict[int, tuple[str, list[Light]]] | None = None
        self._placed: dict[int, list[Light]] = {}

    def show(self, lights: Sequence[Light]) -> bool:
        """Light these, in their order in the text; whether anything changes."""
        if list(lights) == list(self.lights):
            return False
        self.lights = lights
        self.forget()
        return True

    def forget(self) -> None:
        """The text has changed."""
        self._blocks = None
        self._placed.clear()

    def of_block(self, row: int, shown: str) -> list[Light]:
        """Return the highlighted ranges of a block, by characters of its displayed text."""
        if not self.lights:
            return []
        if row not in self._placed:
            source, lights = self._in_blocks().get(row, ("", []))
            ranges = shown_parts(source, shown, [light[:2] for light in lights])
            self._placed[row] = [
                (*place, light[2])
                for place, light in zip(ranges, lights, strict=True)
                if place is not None
            ]
        return self._placed[row]

    def _in_blocks(self) -> dict[int, tuple[str, list[Light]]]:
        """The lights of each block, by the characters of its source."""
        if self._blocks is None:
            self._blocks = {}
            found: Found | None = None
            for first, last, strength in self.lights:
                if found is None or not found[1] <= first < found[1] + len(found[2]):
                    found = self._block_at(first)
                if found is not None:
                    row, start, source = found
                    inside = max(first - start, 0), last - start
                    self._blocks.setdefault(row, (source, []))[1].append((*inside, strength))
        return self._blocks
