"""Formulas inside text documents: what is known of their pictures, and how they are drawn."""

from collections import OrderedDict
from collections.abc import Mapping
from functools import lru_cache

from PySide6.QtCore import QByteArray, QObject, QPointF, QRect, QRectF, QSizeF
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetrics,
    QPainter,
    QPyTextObject,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
)
from PySide6.QtSvg import QSvgRenderer

from app.widgets.markdown.tex import Formula, FormulaPicture

KEPT = 512
OBJECT = "\ufffc"
_TYPE = QTextFormat.ObjectTypes.UserObject.value + 1
_TEX, _DISPLAY, _SOURCE, _WIDTH, _ASCENT, _DESCENT, _HALF_X = (
    QTextFormat.Property.UserProperty.value + n for n in range(1, 8)
)


class Pictures:
    """Pictures made so far; those requested longest ago go first."""

    def __init__(self) -> None:
        self._known: OrderedDict[Formula, FormulaPicture | None] = OrderedDict()

    def __contains__(self, formula: object) -> bool:
        return formula in self._known

    def get(self, formula: Formula) -> FormulaPicture | None:
        """None where there is none, or none yet."""
        if formula in self._known:
            self._known.move_to_end(formula)
        return self._known.get(formula)

    def keep(self, made: Mapping[Formula, FormulaPicture | None]) -> None:
        """Remember what was made of formulas."""
        self._known.update(made)
        while len(self._known) > KEPT:
            self._known.popitem(last=False)


pictures = Pictures()


def insert_picture(
    cursor: QTextCursor, formula: Formula, source: str, look: QTextCharFormat, font: QFont
) -> None:
    """A formula whose picture is known, in the colour of `look`; `source` is what is copied."""
    document = cursor.document()
    layout = document.documentLayout()
    if layout.handlerForObject(_TYPE) is None:
        layout.registerHandler(_TYPE, _FormulaObject(document))
    shape = QTextCharFormat(look)
    shape.setFont(font)
    shape.setObjectType(_TYPE)
    shape.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignMiddle)
    shape.setProperty(_TEX, formula.tex)
    shape.setProperty(_DISPLAY, formula.display)
    shape.setProperty(_SOURCE, source)
    picture, px = pictures.get(formula), font.pixelSize()
    if picture is not None:  # Qt wants its size often
        shape.setProperty(_WIDTH, picture.width * px)
        shape.setProperty(_ASCENT, picture.ascent * px)
        shape.setProperty(_DESCENT, picture.descent * px)
        shape.setProperty(_HALF_X, QFontMetrics(font).xHeight() / 2)
    cursor.insertText(OBJECT, shape)


def with_sources(document: QTextDocument, start: int, text: str) -> str:
    """Text that begins at a position, with the sources of its formulas."""
    parts, cursor, at = [], QTextCursor(document), start
    for character in text:
        at += 2 if ord(character) > 0xFFFF else 1
        if character == OBJECT:
            cursor.setPosition(at)
            character = str(cursor.charFormat().property(_SOURCE) or OBJECT)
        parts.append(character)
    return "".join(parts)


class _FormulaObject(QPyTextObject):
    """Qt puts the middle of an object at half the height of an x: room is left on the shorter
    side, so that the base lines meet. What is wider than the document is made smaller.
    """

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)

    def intrinsicSize(  # noqa: N802
        self, document: QTextDocument, position: int, format: QTextFormat
    ) -> QSizeF:
        width, share = _size(document, format)
        half = format.doubleProperty(_HALF_X)
        ascent, descent = format.doubleProperty(_ASCENT), format.doubleProperty(_DESCENT)
        return QSizeF(width, max(2 * ascent * share - half, 2 * descent * share + half))

    def drawObject(  # noqa: N802
        self,
        painter: QPainter,
        rect: QRectF | QRect,
        document: QTextDocument,
        position: int,
        format: QTextFormat,
    ) -> None:
        picture = _picture(format)
        if picture is None:
            return
        width, share = _size(document, format)
        base = rect.top() + (rect.height() + format.doubleProperty(_HALF_X)) / 2
        ascent = format.doubleProperty(_ASCENT) * share
        height = ascent + format.doubleProperty(_DESCENT) * share
        place = QRectF(QPointF(rect.left(), base - ascent), QSizeF(width, height))
        colour = format.toCharFormat().foreground().color().name()
        _renderer(picture.svg, colour).render(painter, place)


def _picture(format: QTextFormat) -> FormulaPicture | None:
    return pictures.get(Formula(str(format.property(_TEX)), bool(format.property(_DISPLAY))))


def _size(document: QTextDocument, format: QTextFormat) -> tuple[float, float]:
    """The width of a formula, and by how much it is scaled to fit into the document."""
    width, room = format.doubleProperty(_WIDTH), document.textWidth()
    return (room, room / width) if 0 < room < width else (width, 1.0)


@lru_cache(maxsize=128)
def _renderer(svg: bytes, colour: str) -> QSvgRenderer:
    name = QColor(colour).name().encode()
    return QSvgRenderer(QByteArray(svg.replace(b'"black"', b'"' + name + b'"')))
