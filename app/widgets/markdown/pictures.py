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
_TEX, _DISPLAY, _SOURCE = (QTextFormat.Property.UserProperty.value + n for n in (1, 2, 3))


class Pictures:
    """Pictures made so far; those asked for longest ago go first."""

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
        picture = _picture(format)
        if picture is None:
            return QSizeF(0, 0)
        px, half = _pixels(picture, document, format), _half_x(format)
        return QSizeF(
            picture.width * px,
            max(2 * picture.ascent * px - half, 2 * picture.descent * px + half),
        )

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
        px = _pixels(picture, document, format)
        base = rect.top() + (rect.height() + _half_x(format)) / 2
        size = QSizeF(picture.width * px, (picture.ascent + picture.descent) * px)
        place = QRectF(QPointF(rect.left(), base - picture.ascent * px), size)
        colour = format.toCharFormat().foreground().color().name()
        _renderer(picture.svg, colour).render(painter, place)


def _picture(format: QTextFormat) -> FormulaPicture | None:
    return pictures.get(Formula(str(format.property(_TEX)), bool(format.property(_DISPLAY))))


def _pixels(picture: FormulaPicture, document: QTextDocument, format: QTextFormat) -> float:
    px: float = format.toCharFormat().font().pixelSize()
    room = document.textWidth()
    return min(px, room / picture.width) if room > 0 else px


def _half_x(format: QTextFormat) -> float:
    return QFontMetrics(format.toCharFormat().font()).xHeight() / 2


@lru_cache(maxsize=128)
def _renderer(svg: bytes, colour: str) -> QSvgRenderer:
    name = QColor(colour).name().encode()
    return QSvgRenderer(QByteArray(svg.replace(b'"black"', b'"' + name + b'"')))
