"""Lines of a text as laid out, and where its characters stand in them."""

from dataclasses import dataclass

from PySide6.QtGui import QTextLayout, QTextLine


@dataclass
class Paragraph:
    """A line of the text as typed: where it begins, and its layout."""

    start: int
    text: str
    layout: QTextLayout

    def units(self, position: int) -> int:
        """Qt counts UTF-16 units, tokens count characters of the whole text."""
        characters = min(max(0, position - self.start), len(self.text))
        if self.text.isascii():
            return characters
        return len(self.text[:characters].encode("utf-16-le")) // 2

    def position(self, units: int) -> int:
        """The other way round."""
        if self.text.isascii():
            return self.start + units
        return self.start + len(
            self.text.encode("utf-16-le")[: 2 * units].decode("utf-16-le", "ignore")
        )


@dataclass
class Line:
    """A line as laid out: from `start` to `end` in the text; `breaks` where a new line follows."""

    start: int
    end: int
    top: float
    line: QTextLine
    paragraph: Paragraph
    breaks: bool

    @property
    def x_end(self) -> float:
        return cursor_x(self.line, self.line.textStart() + self.line.textLength())


def start_of(line: Line) -> int:
    return line.start


def top_of(line: Line) -> float:
    return line.top


def cursor_x(line: QTextLine, position: int) -> float:
    return float(line.cursorToX(position)[0])  # type: ignore[index]
