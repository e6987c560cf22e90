"""Where a part of a text's source stands in what is shown of it."""

import re
from collections.abc import Iterator

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


def _aligned(source: str, shown: str) -> Iterator[tuple[int, int, int]]:
    """Words of both: where in `shown`, where in `source`, and how long.

    A word with marks inside goes letter by letter; what has no source, as an entity's character or
    the number of a list's item, is left out.
    """
    at = 0
    for word in _WORD.finditer(shown):
        whole = re.compile(rf"(?<![^\W_]){re.escape(word[0])}(?![^\W_])")
        found = whole.search(source, at, at + NEAR + len(word[0]))
        if found is not None:
            yield word.start(), found.start(), len(word[0])
            at = found.end()
            continue
        for n, letter in enumerate(word[0]):
            place = source.find(letter, at, at + NEAR)
            if place >= 0:
                yield word.start() + n, place, 1
                at = place + 1
