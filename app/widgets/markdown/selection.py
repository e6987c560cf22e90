"""A selection that runs over several documents: from an anchor to a cursor, either way round."""

from typing import NamedTuple


class TextPlace(NamedTuple):
    """A position in one of the blocks."""

    block: int
    position: int


class TextSelection:
    """Nothing is selected while anchor and cursor are the same place."""

    def __init__(self) -> None:
        self.anchor = self.cursor = TextPlace(0, 0)

    @property
    def empty(self) -> bool:
        return self.anchor == self.cursor

    @property
    def bounds(self) -> tuple[TextPlace, TextPlace]:
        """The earlier and the later end."""
        return min(self.anchor, self.cursor), max(self.anchor, self.cursor)

    def select(self, anchor: TextPlace, cursor: TextPlace) -> None:
        self.anchor, self.cursor = anchor, cursor

    def clear(self) -> None:
        self.anchor = self.cursor

    def within(self, block: int, length: int) -> tuple[int, int] | None:
        """The part of a block of that length that is selected, None where nothing is."""
        start, end = self.bounds
        if self.empty or not start.block <= block <= end.block:
            return None
        first = start.position if block == start.block else 0
        last = end.position if block == end.block else length
        return (first, last) if first < last else None
