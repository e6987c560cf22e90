"""Blocks of a text that grows: what stands before its last construct is never parsed again."""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from app.widgets.markdown.cuts import Piece, pieces
from app.widgets.markdown.parse import (
    CutCode,
    CutParagraph,
    CutTable,
    TextBlock,
    TopLevel,
    Within,
    parse,
    plain_block,
)

STEP = 1000  # characters that are taken at once
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
        self._start = 0  # where the last construct begins, and the first of its blocks
        self._first = 0
        self._within: Within = None  # the list, table, paragraph or code that goes on there
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
            self._read = self._start = self._first = 0
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
        index = max(bisect_right(self.blocks, position, key=TextBlock.begin) - 1, 0)
        start = self.blocks[index].start
        following = self.blocks[index + 1].start if index + 1 < len(self.blocks) else None
        if following is None:
            return index, start, self._text[start:]
        if following <= start:
            following = self._text.find("\n", start) + 1
        return index, start, self._text[start:following]

    def step(self) -> int:
        """Take the next piece; the index of the first block that is another one now."""
        end = min(len(self._text), self._read + STEP)
        if end < len(self._text):  # at the end of a line, if there is one
            end = self._text.rfind("\n", self._read, end) + 1 or end
        text = self._text[self._start : end]
        parts = parse(text, self._env, self._within, self._start)
        fresh = [block for part in parts for block in part.blocks]
        changed = self._first
        for old, new in zip(self.blocks[self._first :], fresh, strict=False):
            if old != new:
                break
            changed += 1
        self.blocks[self._first :] = fresh
        # A line that is not whole may yet turn out to go on with what is above it ("3" and ".").
        if len(parts) > 1 and parts[-1].start <= self._start + text.rfind("\n"):
            self._go_on_at(parts[-1].start, len(fresh) - len(parts[-1].blocks), None)
        elif len(parts) == 1:
            self._go_on_within(text, parts[0])
        self._read = end
        return changed

    def _go_on_at(self, start: int, block: int, within: Within) -> None:
        self._start, self._within = start, within
        self._first += block

    def _go_on_within(self, text: str, part: TopLevel) -> None:
        """Go on in a long list, table, paragraph or code, of which the end alone can change."""
        last = part.blocks[-1] if part.blocks else None
        if len(part.items) > LONG_LIST:  # so that the space between items is still seen
            item = part.items[-2]
            tail = parse(text[item.start - self._start :], None, item)
            count = sum(len(again.blocks) for again in tail)
            self._go_on_at(item.start, len(part.blocks) - count, item)
        elif last is None or last.joint is None or last.indent or last.quotes:
            return
        elif last.kind == "table" and len(part.blocks) > 1:
            within = self._within
            if not isinstance(within, CutTable):
                head = text[part.start - self._start :].split("\n", 2)[:2]
                within = CutTable("".join(line + "\n" for line in head), last.shares)
            self._go_on_at(last.start, len(part.blocks) - 1, within)
        elif last.kind == "text" and len(part.blocks) > 1:
            self._go_on_at(last.start, len(part.blocks) - 1, CutParagraph(last.joint))
        elif last.kind == "code" and len(part.blocks) > 1:
            self._go_on_in_code(text, part, last.joint)

    def _go_on_in_code(self, text: str, part: TopLevel, joint: str) -> None:
        """Go on at its last piece, unless it might be read as something else there."""
        within, last = self._within, part.blocks[-1]
        if not isinstance(within, CutCode):
            within = CutCode(text[part.start - self._start :].split("\n", 1)[0] + "\n", joint)
        begins = text[last.start - self._start :].lstrip(" ")
        if within.fence[0] in "`~" and not begins.startswith(within.can_end):
            within = within._replace(joint=joint)
            self._go_on_at(last.start, len(part.blocks) - 1, within)


class PlainStream:
    """The blocks of a text as it was typed, one at each step."""

    def __init__(self) -> None:
        self.blocks: list[TextBlock] = []
        self._text = ""
        self._read = 0
        self._pieces: Iterator[Piece] = iter(())

    @property
    def complete(self) -> bool:
        """True if all of the text is in `blocks`."""
        return self._read == len(self._text)

    @property
    def left(self) -> int:
        """Characters that are not in `blocks` yet."""
        return len(self._text) - self._read

    def set_text(self, text: str) -> None:
        """Begin anew with a text, unless it is the one before."""
        if text != self._text:
            self.blocks, self._text, self._read = [], text, 0
            self._pieces = pieces(text)

    def block_at(self, position: int) -> tuple[int, int, str] | None:
        """The block that a position of the text is in, where its source begins, and its source."""
        if position >= self._read or not self.blocks:
            return None
        row = max(bisect_right(self.blocks, position, key=TextBlock.begin) - 1, 0)
        return row, self.blocks[row].start, self.blocks[row].spans[0].text

    def step(self) -> int:
        """Take the next block; its index."""
        piece = next(self._pieces)
        self.blocks.append(plain_block(self._text, piece))
        self._read = piece.last
        return len(self.blocks) - 1
