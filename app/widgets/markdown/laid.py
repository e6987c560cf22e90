"""A block of Markdown laid out for a width: one text document and where it stands."""

from collections.abc import Sequence
from itertools import repeat
from operator import floordiv

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import (
    QAbstractTextDocumentLayout,
    QColor,
    QFont,
    QPainter,
    QPalette,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextLine,
)

from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import CHAT_PX, GRID, RADIUS_CARD
from app.widgets.markdown.documents import (
    document_of,
    extend_code,
    extend_table,
    goes_on,
    trailing,
)
from app.widgets.markdown.parse import TextBlock
from app.widgets.markdown.pictures import OBJECT, pictures, with_sources
from app.widgets.markdown.places import units
from app.widgets.markdown.tex import Formula
from app.widgets.tokens.lights import Light, light_format

INDENT = 24
QUOTE = 16
CODE_BAR = 32  # px at normal text: the line above code with its language and a button
CODE_PADDING = 12
SCROLL_BAR = 12
MOST_CONTEXT = 10_000  # characters of code above a piece that its colours take
END = 1 << 30  # behind the last position of any block
_HEADING_GAPS = (0, 32, 28, 24, 20, 20, 20)


class BlockRun:
    """Blocks that move together: `top` is where the first one's gap begins in the widget."""

    __slots__ = ("top",)

    def __init__(self) -> None:
        self.top = 0


class Laid:
    """`below` is where it begins in its run; `shift` is how far code is scrolled sideways, with
    all its pieces.

    The height is a guess until it is measured (`exact`). The document is made when it is asked
    for, and may be released. `formulas` are all of the block's.
    """

    __slots__ = (  # there may be tens of thousands
        *("block", "run", "below", "height", "width", "gap", "exact"),
        *("overflow", "shift", "formulas"),
        *("_document", "_bars_above", "_above", "_context", "_goes_on"),
    )

    def __init__(
        self, block: TextBlock, above: "Laid | None", width: int, run: BlockRun | None = None
    ) -> None:
        self.block, self.run, self.shift = block, run or BlockRun(), 0
        self.formulas = _formulas(block)
        self._document: QTextDocument | None = None
        self.gap = 0 if above is None else _gap(block, above.block)
        self._above = above if block.kind == "code" and block.joint is not None else None
        self._context: str | None = None  # the code above that gave it its colours
        self._goes_on = False  # a string or comment goes on in it that began there
        self._bars_above = min(block.quotes, above.block.quotes) if above is not None else 0
        self.below = self.height = self.width = self.overflow = 0
        self.exact = False
        self.lay(width)

    @property
    def document(self) -> QTextDocument:
        """Its text, laid out for the width."""
        if self._document is None:
            self._document = self._make_document()
            self._measure()
        return self._document

    def _make_document(self) -> QTextDocument:
        self._context = self._needed_context()
        self._goes_on = goes_on(self._context, self.block.code, self.block.language)
        return document_of(self.block, self._context)

    def _needed_context(self) -> str:
        """The code above a piece that gives it its colours, as far as that is known: the piece
        above, and what that one needs if a string or comment goes on in it.
        """
        above = self._above
        if above is None:
            return ""
        before = (above._context or "") if above._goes_on else ""
        before = before if len(before) < MOST_CONTEXT else ""
        return before + above.block.code + (self.block.joint or "")

    @property
    def has_document(self) -> bool:
        """True if the document is laid out."""
        return self._document is not None

    def measure(self) -> bool:
        """Make the height exact; whether it has changed."""
        before = self.height
        if self._document is not None and self._context != self._needed_context():
            self._document = self._make_document()  # the pieces above were not known
            self._measure()
        if not self.exact:
            self._document = self._document or self._make_document()
            self._measure()
        return self.height != before

    def release(self) -> None:
        """Forget the document; the height stays."""
        self._document = None

    @property
    def unknown(self) -> list[Formula]:
        """Formulas whose pictures are not known."""
        return [formula for formula in self.formulas if formula not in pictures]

    def extend(self, block: TextBlock) -> bool:
        """Become a block that is this one with more code or rows; False where it is another."""
        old = self.block
        same = old.kind == block.kind and old.joint == block.joint and old.more == block.more
        if not same or old.kind not in ("code", "table"):
            return False
        document = self.document
        context = self._context or ""
        if not (extend_code(document, old, block, context) or extend_table(document, old, block)):
            return False
        self.block, self.formulas = block, _formulas(block)
        self._measure()
        return True

    def lay(self, width: int) -> None:
        """Another width: the height is a guess again."""
        before, self.width = self.width, max(40, width - self.left)
        self.exact = False
        if not before:
            self.height = guess(self.block, self.width)
        elif self.block.kind in ("text", "plain"):
            self.height = self.height * before // self.width

    def _measure(self) -> None:
        document, room = self._document, self.width
        assert document is not None
        if self.block.kind == "code":
            if document.textWidth() >= 0:  # setting it lays the document out again
                document.setTextWidth(-1)
            self.overflow = max(0, round(document.idealWidth()) + 2 * CODE_PADDING - room)
            text = document.size().height()
            if not self.block.more:
                # Whether another piece needs the scroll bar is not known yet.
                scrolls = SCROLL_BAR if self.overflow or self.block.joint is not None else 0
                text += CODE_PADDING + scrolls - trailing(self.block)
            self.height = round(self._bar + text)
        elif self.block.kind == "rule":
            self.height = GRID
        else:
            document.setTextWidth(room)
            self.height = round(document.size().height() - trailing(self.block))
        self.exact = True

    @property
    def left(self) -> int:
        """Where its text or frame begins."""
        return fonts.px(INDENT) * self.block.indent + QUOTE * self.block.quotes

    @property
    def _bar(self) -> int:
        """The height of the bar above its code."""
        begins = self.block.kind == "code" and self.block.joint is None
        return fonts.px(CODE_BAR) if begins else 0

    @property
    def top(self) -> int:
        """Where it begins in the widget."""
        return self.run.top + self.below

    @property
    def bottom(self) -> int:
        """Where the next block's gap begins."""
        return self.run.top + self.below + self.height

    @property
    def origin(self) -> QPointF:
        """Where the document's upper left corner is in the widget."""
        if self.block.kind == "code":
            return QPointF(self.left + CODE_PADDING - self.shift, self.top + self._bar)
        if self.right_to_left:  # the indentation is on the right
            return QPointF(QUOTE * self.block.quotes, self.top)
        return QPointF(self.left, self.top)

    @property
    def right_to_left(self) -> bool:
        """True for text whose first letter is of a script such as Arabic or Hebrew."""
        if self.block.kind not in ("text", "plain", "heading"):
            return False
        return self.document.begin().textDirection() == Qt.LayoutDirection.RightToLeft

    @property
    def length(self) -> int:
        """Positions in the document."""
        return max(0, self.document.characterCount() - 1)

    def position_at(self, point: QPointF) -> int:
        """The nearest position of the text."""
        layout = self.document.documentLayout()
        return max(0, layout.hitTest(point - self.origin, Qt.HitTestAccuracy.FuzzyHit))

    def link_at(self, point: QPointF) -> str:
        """The address of the link there, or nothing."""
        return self.document.documentLayout().anchorAt(point - self.origin)

    def text(self, start: int, end: int) -> str:
        """The text between two positions."""
        if start == 0 and (end == END or end >= self.length):
            return words_of(self.block)
        cursor = QTextCursor(self.document)
        cursor.setPosition(start)
        cursor.setPosition(min(end, self.length), QTextCursor.MoveMode.KeepAnchor)
        selected = cursor.selectedText().replace("\u2029", "\n").replace("\u2028", "\n")
        selected = selected.replace("\ufdd0", "").replace("\ufdd1", "")
        if OBJECT in selected:
            selected = with_sources(self.document, start, selected)
        return _marked(self.block, selected) if start == 0 else selected

    def end_rect(self) -> QRectF:
        """Where a caret behind the last character stands."""
        block = self.document.lastBlock()
        line = block.layout().lineForTextPosition(max(0, block.length() - 1))
        if not line.isValid():
            return QRectF(self.origin, self.origin)
        x = cursor_x(line, block.length() - 1)
        corner = self.document.documentLayout().blockBoundingRect(block).topLeft()
        ascent, descent = line.ascent(), line.descent()
        top = line.y() + line.height() - ascent - descent
        return QRectF(corner.x() + x, corner.y() + top, 1, ascent + descent).translated(self.origin)

    def places_of(self, words: Sequence[str]) -> list[tuple[int, int]]:
        """The positions of words in it, ignoring case."""
        found = []
        for word in words:
            cursor = self.document.find(word, 0)
            while not cursor.isNull():
                found.append((cursor.selectionStart(), cursor.selectionEnd()))
                cursor = self.document.find(word, cursor)
        return sorted(found)

    def y_of(self, position: int) -> int:
        """Where the line of a position begins in the widget."""
        block = self.document.findBlock(position)
        line = block.layout().lineForTextPosition(position - block.position())
        corner = self.document.documentLayout().blockBoundingRect(block).topLeft()
        return round(self.origin.y() + corner.y() + (line.y() if line.isValid() else 0))

    def paint(
        self,
        painter: QPainter,
        selected: tuple[int, int] | None,
        marked: Sequence[str] = (),
        pointed: tuple[int, int] | None = None,
        lights: Sequence[Light] = (),
    ) -> None:
        """Draw it with its bars, marker and frame; `marked` words have another background, and so
        have `lights` and the range that is `pointed` at.
        """
        now = tokens()
        painter.setPen(Qt.PenStyle.NoPen)
        for n in range(self.block.quotes):
            gap = self.gap if n < self._bars_above else 0
            bar = QRectF(n * QUOTE, self.top - gap, 3, self.height + gap)
            painter.fillRect(bar, QColor(now.divider))
        match self.block.kind:
            case "rule":
                line = QRectF(self.left, self.top + GRID // 2, self.width, 1)
                painter.fillRect(line, QColor(now.divider))
                return
            case "code":
                self._paint_frame(painter)
        self._paint_marker(painter)
        context = QAbstractTextDocumentLayout.PaintContext()
        context.palette.setColor(QPalette.ColorRole.Text, QColor(now.text))
        look = QTextCharFormat()
        look.setBackground(QColor(now.on("warn", 0.35)))
        parts = [self._part(*place, look) for place in (self.places_of(marked) if marked else ())]
        shown = self.document.toRawText() if lights else ""
        for first, last, strength in lights:
            place = units(shown, first), units(shown, last)
            parts.append(self._part(*place, light_format(strength)))
        if pointed is not None:
            look.setBackground(QColor(now.on("accent", 0.35)))
            parts.append(self._part(*pointed, look))
        if selected is not None:
            look.setBackground(QColor(now.accent))
            look.setForeground(QColor(now.accent_text))
            parts.append(self._part(*selected, look))
        context.selections = parts
        painter.save()
        if self.block.kind == "code":
            inside = QRectF(self.left + 1, self.top, self.width - 2, self.height)
            painter.setClipRect(inside, Qt.ClipOperation.IntersectClip)
        painter.translate(self.origin)
        self.document.documentLayout().draw(painter, context)
        painter.restore()

    def _paint_frame(self, painter: QPainter) -> None:
        """Draw its part of the frame around all pieces of the code."""
        now = tokens()
        area = QRectF(self.left, self.top, self.width, self.height)
        above = 2 * RADIUS_CARD if self.block.joint is not None else 0
        below = 2 * RADIUS_CARD if self.block.more else 0
        painter.save()
        painter.setClipRect(area, Qt.ClipOperation.IntersectClip)
        painter.setPen(QColor(now.divider))
        painter.setBrush(QColor(now.raised))
        frame = area.adjusted(0.5, 0.5 - above, -0.5, below - 0.5)
        painter.drawRoundedRect(frame, RADIUS_CARD, RADIUS_CARD)
        painter.restore()

    def _paint_marker(self, painter: QPainter) -> None:
        if not self.block.marker:
            return
        first = self.document.begin().layout()
        line = first.lineAt(0) if first.lineCount() else None
        painter.setFont(_tabular(self.document.defaultFont()))
        painter.setPen(QColor(tokens().quiet))
        # On the first line's base line, whatever the line's height is.
        metrics = painter.fontMetrics()
        base = self.top + (line.y() + line.ascent() if line is not None else metrics.ascent())
        x = self.left - 7.0 - metrics.horizontalAdvance(self.block.marker)
        if self.right_to_left:
            x = self.origin.x() + self.width + 7
        painter.drawText(QPointF(x, base), self.block.marker)

    def _part(
        self, start: int, end: int, look: QTextCharFormat
    ) -> QAbstractTextDocumentLayout.Selection:
        made = QAbstractTextDocumentLayout.Selection()
        cursor = QTextCursor(self.document)
        cursor.setPosition(min(start, self.length))
        cursor.setPosition(min(end, self.length), QTextCursor.MoveMode.KeepAnchor)
        made.cursor, made.format = cursor, QTextCharFormat(look)
        return made


def cursor_x(line: QTextLine, position: int) -> float:
    """The x of a position of a line's paragraph."""
    found: object = line.cursorToX(position)
    return float(found[0] if isinstance(found, tuple) else found)  # type: ignore[arg-type]


def _tabular(font: QFont) -> QFont:
    marker = QFont(font)
    marker.setBold(False)
    return marker


def words_of(block: TextBlock) -> str:
    """The text that copying a whole block gives."""
    match block.kind:
        case "table":
            rows = [["".join(span.text for span in cell) for cell in row] for row in block.rows]
            return "\n".join("\t".join(row) for row in rows)
        case "code":
            return block.code
    return _marked(block, "".join(span.text for span in block.spans))


def _marked(block: TextBlock, words: str) -> str:
    return f"{'  ' * max(0, block.indent - 1)}{block.marker} {words}" if block.marker else words


def guess(block: TextBlock, width: int) -> int:
    """About how high a block will be, without laying it out."""
    px = fonts.px(CHAT_PX)
    match block.kind:
        case "rule":
            return GRID
        case "code":
            bar = fonts.px(CODE_BAR) if block.joint is None else 0
            code = (block.code.count("\n") + 1) * round(px * 1.5)
            return bar + code + (0 if block.more else CODE_PADDING)
        case "table":
            return len(block.rows) * (px * 2)
    a_line = max(1, round(width / (px * 0.5)))
    parts = "".join(span.text for span in block.spans).split("\n")
    lines: int = len(parts) + sum(map(floordiv, map(len, parts), repeat(a_line)))
    return lines * round(px * 1.75)


def _formulas(block: TextBlock) -> tuple[Formula, ...]:
    parts = [block.spans, *(cell for row in block.rows for cell in row)]
    return tuple([span.formula for part in parts for span in part if span.formula is not None])


def _gap(block: TextBlock, above: TextBlock) -> int:
    if block.joint is not None:
        return 0 if block.kind == "code" else round(trailing(above))
    if block.kind == "heading":
        return fonts.px(_HEADING_GAPS[block.level])
    if above.kind == "heading":
        return fonts.px(12)
    if above.kind == "text" and block.kind == "text" and (block.close or block.marker):
        return fonts.px(11 if block.close else 14)
    return fonts.px(16)
