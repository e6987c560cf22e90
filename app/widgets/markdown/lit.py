"""Which parts of each block are lit, of those that are lit in the text it was made from."""

from collections.abc import Callable, Sequence

from app.widgets.markdown.places import shown_parts
from app.widgets.tokens.lights import Light

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
