"""Blocks of Markdown as Qt's text documents, in fonts and colours of the theme."""

from collections.abc import Iterable
from functools import cache, lru_cache

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Literal, Name, Number, Operator, String, _TokenType
from pygments.util import ClassNotFound
from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
    QFontMetricsF,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFrameFormat,
    QTextLength,
    QTextOption,
    QTextTable,
    QTextTableCellFormat,
    QTextTableFormat,
)

from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import BODY_PX, CHAT_PX
from app.widgets.markdown.parse import Spans, TextBlock
from app.widgets.markdown.pictures import insert_picture, pictures
from app.widgets.markdown.places import units_of

_TONES: tuple[tuple[_TokenType, str], ...] = (
    (Comment, "code_comment"),
    (String, "code_string"),
    (Number, "code_number"),
    (Literal, "code_number"),
    (Keyword, "code_keyword"),
    (Operator.Word, "code_keyword"),
    (Name.Function, "code_name"),
    (Name.Class, "code_name"),
    (Name.Tag, "code_keyword"),
    (Name.Builtin, "code_name"),
    (Name.Decorator, "code_name"),
    (Name.Attribute, "code_name"),
)


Run = tuple[int, int, str]
"""Code of one colour: start, length, name of the token of the theme."""


_loaded: set[str] = set()  # languages whose lexer was loaded, which takes up to 0.1 s,
_loading: set[str] = set()  # and those without colours until then


def unloaded(blocks: Iterable[TextBlock]) -> frozenset[str]:
    """The languages of code here that have no colours until `load_languages` has loaded them."""
    named = {block.language.lower() for block in blocks if block.kind == "code"}
    found = named - _loaded - {""}
    _loading.update(found)
    return frozenset(found)


def load_languages(languages: frozenset[str]) -> frozenset[str]:
    """Load what `unloaded` returned, in any thread."""
    for language in languages:
        _lexer(language)
        _loaded.add(language)
        _loading.discard(language)
    return languages


def highlight(code: str, language: str) -> tuple[Run, ...]:
    """The runs of code that are not in the colour of text, in order; none of a language that is
    being loaded.
    """
    return () if language.lower() in _loading else _runs(code, language)


@lru_cache(maxsize=4)  # called for the colours of a piece, and whether it goes on with something
def _runs(code: str, language: str) -> tuple[Run, ...]:
    lexer = _lexer(language.lower())
    if lexer is None:
        return ()
    found = lexer.get_tokens_unprocessed(code)
    return tuple((start, len(text), tone) for start, kind, text in found if (tone := _tone(kind)))


def goes_on(above: str, code: str, language: str) -> bool:
    """Return whether code begins within a string or comment, after the code above it."""
    last = len(above) - 1
    return last >= 0 and any(
        start <= last < start + length
        for start, length, tone in highlight(above + code, language)
        if tone in ("code_string", "code_comment")
    )


def _within(kind: _TokenType, family: _TokenType) -> bool:
    return kind[: len(family)] == family


@cache
def _tone(kind: _TokenType) -> str:
    return next((tone for known, tone in _TONES if _within(kind, known)), "")


@lru_cache(maxsize=64)
def _lexer(language: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language) if language else None
    except ClassNotFound:
        return None


_HEADINGS = (0, 21, 18, 16, CHAT_PX, CHAT_PX, CHAT_PX)
_LINE, _LINE_HEADING, _LINE_CODE = 150, 130, 145  # per cent of the font's height
_HEIGHTS = {
    "text": _LINE,
    "plain": _LINE,
    "math": _LINE,
    "heading": _LINE_HEADING,
    "code": _LINE_CODE,
}
_ABOVE = 30  # lines of code that give colours their context
_ALIGNS = {
    "left": Qt.AlignmentFlag.AlignLeft,
    "center": Qt.AlignmentFlag.AlignHCenter,
    "right": Qt.AlignmentFlag.AlignRight,
}


def document_of(block: TextBlock, above: str = "") -> QTextDocument:
    """Make the document of a block; `above` is the code before a piece of code, for its colours."""
    document = QTextDocument()
    document.setUndoRedoEnabled(False)
    document.setDocumentMargin(0)
    document.setDefaultFont(_font(block))
    cursor = QTextCursor(document)
    cursor.beginEditBlock()
    match block.kind:
        case "text" | "plain" | "heading" | "math":
            cursor.setBlockFormat(_paragraph(block))
            _insert(cursor, block.spans, document.defaultFont())
        case "code":
            _insert_code(cursor, block, above)
        case "table":
            _insert_table(cursor, block)
    cursor.endEditBlock()
    return document


def trailing(block: TextBlock) -> float:
    """The space that Qt leaves below the last line, as below every other."""
    lines = 100 if block.kind == "math" and _draws(block) else _HEIGHTS.get(block.kind, 100)
    return QFontMetricsF(_font(block)).height() * (lines - 100) / 100


def _font(block: TextBlock) -> QFont:
    if block.kind == "code":
        return fonts.mono(BODY_PX)
    font = fonts.chat()
    if block.kind == "heading":
        font.setPixelSize(fonts.px(_HEADINGS[block.level]))
        font.setWeight(QFont.Weight.DemiBold)
    return font


def _paragraph(block: TextBlock) -> QTextBlockFormat:
    made = _lines(_HEIGHTS.get(block.kind, 100))
    if not _draws(block):
        return made
    if block.kind == "math":
        made.setAlignment(Qt.AlignmentFlag.AlignHCenter)
    # What is added to a line with a high formula is no more than to any other.
    distance = QTextBlockFormat.LineHeightTypes.LineDistanceHeight.value
    made.setLineHeight(trailing(block), distance)
    return made


def _draws(block: TextBlock) -> bool:
    """Return whether the block draws a formula."""
    named = (span.formula for span in block.spans if span.formula is not None)
    return any(pictures.get(formula) is not None for formula in named)


def _lines(height: int) -> QTextBlockFormat:
    made = QTextBlockFormat()
    made.setLineHeight(height, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
    return made


def _insert(cursor: QTextCursor, spans: Spans, font: QFont, bold: bool = False) -> None:
    now = tokens()
    for span in spans:
        look = QTextCharFormat()
        look.setForeground(QColor(now.text))
        if span.code:
            look.setFont(fonts.mono(round(font.pixelSize() / fonts.px(100) * 100 * 0.9)))
            look.setBackground(QColor(now.raised))
        if span.bold or bold:
            look.setFontWeight(QFont.Weight.DemiBold)
        if span.italic:
            look.setFontItalic(True)
        if span.strike:
            look.setFontStrikeOut(True)
        if span.href:
            look.setAnchor(True)
            look.setAnchorHref(span.href)
            look.setForeground(QColor(now.link))
            look.setFontUnderline(True)
        if span.formula is not None and pictures.get(span.formula) is not None:
            insert_picture(cursor, span.formula, span.text, look, font)
            continue
        if span.formula is not None:  # not yet, or no TeX
            look.setForeground(QColor(now.quiet))
        cursor.insertText(span.text.replace("\n", "\u2028"), look)


def _insert_code(cursor: QTextCursor, block: TextBlock, above: str) -> None:
    option = QTextOption()
    option.setWrapMode(QTextOption.WrapMode.NoWrap)
    option.setTabStopDistance(4 * cursor.document().defaultFont().pixelSize() * 0.6)
    cursor.document().setDefaultTextOption(option)
    lines = _lines(_LINE_CODE)
    lines.setLayoutDirection(Qt.LayoutDirection.LeftToRight)  # also where it begins with Arabic
    cursor.setBlockFormat(lines)
    cursor.insertText(block.code, _coloured("text"))
    _highlight(cursor, block.code, block.language, above=above)


def extend_code(document: QTextDocument, old: TextBlock, new: TextBlock, above: str = "") -> bool:
    """Append what code has grown by, with its colours; False where it is other code. `above` is
    the code before it.

    Colours are found from some lines above on, which is wrong only within a longer string or
    comment, until the document is made anew.
    """
    same = old.kind == new.kind == "code" and old.language == new.language
    if not same or not new.code.startswith(old.code):
        return False
    cursor = QTextCursor(document)
    cursor.beginEditBlock()
    cursor.movePosition(QTextCursor.MoveOperation.End)
    cursor.insertText(new.code[len(old.code) :], _coloured("text"))
    start = len(old.code)
    for _ in range(_ABOVE):
        start = new.code.rfind("\n", 0, start)
        if start < 0:
            break
    position, context = units_of(new.code[: start + 1]), above if start < 0 else ""
    _highlight(cursor, new.code[start + 1 :], new.language, position, context)
    cursor.endEditBlock()
    return True


def extend_table(document: QTextDocument, old: TextBlock, new: TextBlock) -> bool:
    """Append the rows that a table has grown by; False where it is another table."""
    same = old.kind == new.kind == "table" and old.aligns == new.aligns
    same = same and old.shares == new.shares
    whole = len(old.rows) - 1  # the last row may be another by now
    if not same or whole < 1 or new.rows[:whole] != old.rows[:whole]:
        return False
    table = document.rootFrame().childFrames()[0]
    assert isinstance(table, QTextTable)
    cursor = QTextCursor(document)
    cursor.beginEditBlock()
    table.removeRows(whole, table.rows() - whole)
    table.appendRows(len(new.rows) - whole)
    _fill_rows(table, new, whole, document.defaultFont())
    cursor.endEditBlock()
    return True


def _highlight(
    cursor: QTextCursor, code: str, language: str, position: int = 0, above: str = ""
) -> None:
    """Colour code that begins at a position of the document; it goes on after `above`."""
    wide = not code.isascii()
    for place, length, tone in highlight(above + code, language):
        start, last = max(0, place - len(above)), place + length - len(above)
        if last <= 0:
            continue
        # pygments counts characters, Qt UTF-16 units.
        before = position + (units_of(code[:start]) if wide else start)
        cursor.setPosition(before)
        cursor.setPosition(before + units_of(code[start:last]), QTextCursor.MoveMode.KeepAnchor)
        cursor.mergeCharFormat(_coloured(tone))


def _coloured(tone: str) -> QTextCharFormat:
    look = QTextCharFormat()
    look.setForeground(QColor(getattr(tokens(), tone)))
    return look


def _insert_table(cursor: QTextCursor, block: TextBlock) -> None:
    columns = max((len(row) for row in block.rows), default=1)
    shape = QTextTableFormat()
    shape.setBorder(0)
    shape.setBorderCollapse(True)
    shape.setCellPadding(0)
    shape.setCellSpacing(0)
    shape.setHeaderRowCount(1 if block.joint is None else 0)
    if block.shares:
        whole = QTextLength.Type.PercentageLength
        shape.setWidth(QTextLength(whole, 100))
        shape.setColumnWidthConstraints([QTextLength(whole, 100 * s) for s in block.shares])
    table = cursor.insertTable(max(1, len(block.rows)), columns, shape)
    _fill_rows(table, block, 0, cursor.document().defaultFont())


def _fill_rows(table: QTextTable, block: TextBlock, first: int, font: QFont) -> None:
    now = tokens()
    head = 0 if block.joint is None else -1
    for r, row in enumerate(block.rows[first:], first):
        for c, spans in enumerate(row[: table.columns()]):
            cell = table.cellAt(r, c)
            look = QTextTableCellFormat()
            look.setTopPadding(4)
            look.setBottomPadding(4)
            look.setRightPadding(20)
            look.setBottomBorder(1)
            look.setBottomBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
            look.setBottomBorderBrush(QBrush(QColor(now.faint if r == head else now.divider)))
            cell.setFormat(look)
            at = cell.firstCursorPosition()
            lines = _lines(_LINE_HEADING)
            lines.setAlignment(_ALIGNS[block.aligns[c] if c < len(block.aligns) else "left"])
            at.setBlockFormat(lines)
            _insert(at, spans, font, bold=r == head)
