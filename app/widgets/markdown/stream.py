"""Blocks of a text that grows: what stands before its last construct is never parsed again."""

from bisect import bisect_right
from typing import Any

from app.widgets.markdown.parse import Item, TextBlock, TopLevel, parse

STEP = 2000  # characters that are taken at once
LONG_LIST = 24  # items; of a longer list only the last ones are parsed again


class Stream:
    """Feed it the whole text, again and again as it grows; it goes on from where it was.

    Only the last top-level construct of CommonMark can still change when text is appended, so
    parsing starts there. (A link defined after its use is the exception: it stays as typed. In a
    list of more than LONG_LIST items a late empty line moves only its last ones apart.)
    """

    def __init__(self) -> None:
        self.blocks: list[TextBlock] = []
        self._text = ""
        self._read = 0  # characters of the text that are in `blocks`
        self._start = 0  # where the last construct begins, its line, and the first of its blocks
        self._line = 0
        self._first = 0
        self._within: Item | None = None  # the list that goes on there
        self._env: dict[str, Any] = {}

    @property
    def complete(self) -> bool:
        """True if all of the text is in `blocks`."""
        return self._read == len(self._text)

    @property
    def left(self) -> int:
        """Characters that are not in `blocks` yet."""
        return len(self._text) - self._read

    def set_text(self, text: str) -> None:
        """The text now; what does not continue the one before begins anew."""
        if not text.startswith(self._text[: self._read]):
            self.blocks, self._env = [], {}
            self._read = self._start = self._line = self._first = 0
            self._within = None
        self._text = text

    def block_at(self, position: int) -> tuple[int, int, str] | None:
        """The block that a position of the text is in, or the next one where that is between two;
        where its source begins, and its source. None where it is not taken in yet.
        """
        while position < self._read and self._text[position].isspace():
            position += 1
        if position >= self._read or not self.blocks:
            return None
        line = self._text.count("\n", 0, position)
        index = max(bisect_right(self.blocks, line, key=_first_line) - 1, 0)
        start = position
        for _ in range(line - self.blocks[index].line + 1):
            start = self._text.rfind("\n", 0, start)
        start += 1
        following = self.blocks[index + 1].line if index + 1 < len(self.blocks) else None
        if following is None:
            return index, start, self._text[start:]
        end = start
        for _ in range(max(1, following - self.blocks[index].line)):
            end = self._text.find("\n", end) + 1
        return index, start, self._text[start:end]

    def start_of(self, row: int) -> int:
        """Where in the text the line begins on which a block does."""
        start = 0
        for _ in range(self.blocks[row].line):
            start = self._text.find("\n", start) + 1
        return start

    def step(self) -> int:
        """Take the next piece; the index of the first block that is another one now."""
        end = min(len(self._text), self._read + STEP)
        if end < len(self._text):  # at the end of a line, if there is one
            end = self._text.rfind("\n", self._read, end) + 1 or end
        text = self._text[self._start : end]
        parts = parse(text, self._env, self._within, self._line)
        fresh = [block for part in parts for block in part.blocks]
        changed = self._first
        for old, new in zip(self.blocks[self._first :], fresh, strict=False):
            if old != new:
                break
            changed += 1
        self.blocks[self._first :] = fresh
        # A line that is not whole may yet turn out to go on with what is above it ("3" and ".").
        whole_lines = text.count("\n")
        if len(parts) > 1 and parts[-1].line < whole_lines:
            self._go_on_at(text, parts[-1].line, len(fresh) - len(parts[-1].blocks))
            self._within = None
        elif len(parts) == 1 and len(parts[0].items) > LONG_LIST:
            self._go_on_in_list(text, parts[0])
        self._read = end
        return changed

    def _go_on_at(self, text: str, line: int, block: int) -> None:
        lines = text.split("\n", line)
        self._start += len(text) - len(lines[-1])
        self._line += line
        self._first += block

    def _go_on_in_list(self, text: str, part: TopLevel) -> None:
        """From its last item but one, so that the space between items is still seen."""
        item = part.items[-2]
        tail = len(_until(part, item, text))
        self._go_on_at(text, item.line, len(part.blocks) - tail)
        self._within = item


def _first_line(block: TextBlock) -> int:
    return block.line


def _until(part: TopLevel, item: Item, text: str) -> list[TextBlock]:
    """The blocks of a list from an item on."""
    lines = text.split("\n", item.line)
    return [block for again in parse(lines[-1], None, item) for block in again.blocks]
