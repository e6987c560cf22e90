"""Drawing in the theme's fonts and colours: fills, frames, lines, and texts that fit."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from PySide6.QtCore import QPoint, QPointF, QRect, QRectF, Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
    QFontMetricsF,
    QImage,
    QPainter,
    QPainterPath,
    QPen,
    QPixmap,
    QPolygonF,
    QRegion,
)
from PySide6.QtWidgets import QWidget

from app.theme import fonts
from app.theme.devices import draw_swatch, fill_component
from app.theme.theme import tokens
from app.theme.tokens import GRID, PADDING, RADIUS_CARD, mix

LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
TOP = Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft
CENTER = Qt.AlignmentFlag.AlignCenter
SOLID, DASHED, DOTTED = Qt.PenStyle.SolidLine, Qt.PenStyle.DashLine, Qt.PenStyle.DotLine

Brush = str | QBrush
TAKEN = QWidget.RenderFlag.DrawWindowBackground | QWidget.RenderFlag.DrawChildren


@contextmanager
def painting(widget: QWidget) -> "Iterator[Paper]":
    """Paint a widget, in its `paintEvent`."""
    painter = QPainter(widget)
    yield Paper(painter, widget.rect().toRectF())
    painter.end()


class Paper:
    """Wraps the painter of a widget. `seen` is the part that is painted now; colours are written
    as the theme writes them.
    """

    def __init__(self, painter: QPainter, seen: QRectF) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self.painter, self.seen = painter, seen

    def fill(self, area: QRectF, *brushes: Brush, radius: float = 0.0) -> None:
        """One brush over the other."""
        for one in brushes:
            brush = QBrush(QColor(one)) if isinstance(one, str) else one
            if radius:
                self.painter.setPen(Qt.PenStyle.NoPen)
                self.painter.setBrush(brush)
                self.painter.drawRoundedRect(area, radius, radius)
            else:
                self.painter.fillRect(area, brush)

    def fills(self, areas: Sequence[QRectF], colour: str) -> None:
        """Many areas in one colour."""
        self.painter.setPen(Qt.PenStyle.NoPen)
        self.painter.setBrush(QColor(colour))
        self.painter.drawRects(areas)

    def component(self, area: QRectF, device: str, component: str) -> str:
        """Fill the area of a device's component; the colour for text on it."""
        return fill_component(self.painter, area, device, component)

    def swatch(self, left: float, middle: float, device: str) -> None:
        """The device's square, centred on the height `middle`."""
        draw_swatch(self.painter, left, middle, device)

    def frame(
        self,
        area: QRectF,
        tone: str,
        width: float = 1,
        radius: float = 0.0,
        style: Qt.PenStyle = SOLID,
    ) -> None:
        """An outline centred on the edge of the area."""
        self.painter.setPen(QPen(QColor(tone), width, style))
        self.painter.setBrush(Qt.BrushStyle.NoBrush)
        self.painter.drawRoundedRect(area, radius, radius)

    def focus(self, area: QRectF) -> None:
        """The frame of a widget that has the keyboard."""
        self.frame(area.adjusted(0.5, 0.5, -0.5, -0.5), tokens().accent)

    def line(
        self, points: Sequence[QPointF], tone: str, width: float = 1, style: Qt.PenStyle = SOLID
    ) -> None:
        self.painter.setPen(QPen(QColor(tone), width, style))
        self.painter.drawPolyline(points)

    def shape(self, points: Sequence[QPointF], *brushes: Brush) -> None:
        """A filled polygon."""
        self.painter.setPen(Qt.PenStyle.NoPen)
        for brush in brushes:
            self.painter.setBrush(QColor(brush) if isinstance(brush, str) else brush)
            self.painter.drawPolygon(QPolygonF(points))

    def dot(self, middle: QPointF, radius: float, fill: str, line: str, width: float) -> None:
        self.painter.setPen(QPen(QColor(line), width))
        self.painter.setBrush(QColor(fill))
        self.painter.drawEllipse(middle, radius, radius)

    def image(
        self, area: QRectF, image: QImage, smooth: bool, source: QRectF | None = None
    ) -> None:
        """An image, or a part of it; each of its pixels is seen unless it is `smooth`."""
        self.painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, smooth)
        self.painter.drawImage(area, image, QRectF(image.rect()) if source is None else source)

    def card(self, area: QRectF) -> None:
        """The ground of what floats over the window."""
        now, inside = tokens(), area.adjusted(0.5, 0.5, -0.5, -0.5)
        self.fill(inside, now.panel, radius=RADIUS_CARD)
        self.frame(inside, mix(now.faint, now.panel, 0.6), 1, RADIUS_CARD)

    def cross(self, middle: QPointF, size: float, tone: str) -> None:
        """What was refused is crossed out."""
        self.painter.setPen(QPen(QColor(tone), 2, c=Qt.PenCapStyle.RoundCap))
        for turn in (1, -1):
            reach = QPointF(size, size * turn)
            self.painter.drawLine(middle - reach, middle + reach)

    def text(
        self,
        area: QRectF,
        *texts: str,
        tone: str = "",
        align: Qt.AlignmentFlag = LEFT,
        font: QFont | None = None,
        margin: float = 0.0,
    ) -> float:
        """Write the first of the texts that fits beside a margin, none if none does; its width."""
        metrics = self._letters(tone, font)
        for text in texts:
            width = metrics.horizontalAdvance(text)
            if width <= area.width() - margin:
                self.painter.drawText(area, align, text)
                return width
        return 0.0

    def elided(
        self,
        area: QRectF,
        text: str,
        tone: str = "",
        align: Qt.AlignmentFlag = LEFT,
        font: QFont | None = None,
    ) -> float:
        """Write a text, shortened to the area; its width."""
        metrics = self._letters(tone, font)
        shown = metrics.elidedText(text, Qt.TextElideMode.ElideRight, max(0, int(area.width())))
        self.painter.drawText(area, align, shown)
        return metrics.horizontalAdvance(shown)

    def wrapped(
        self,
        area: QRectF,
        text: str,
        tone: str,
        align: Qt.AlignmentFlag = TOP,
        font: QFont | None = None,
    ) -> None:
        """Write a text in as many lines as it needs."""
        self._letters(tone, font)
        self.painter.drawText(area, align | Qt.TextFlag.TextWordWrap, text)

    def head(self, area: QRectF, title: str, number: str, unit: str) -> None:
        """A title at the left, shortened where it must be, a number with a quiet unit at the
        right.
        """
        now, body = tokens(), fonts.body()
        self.text(area, unit, tone=now.quiet, align=RIGHT, font=body)
        before = area.adjusted(0, 0, -text_width(f" {unit}", body), 0)
        wide = self.text(before, number, tone=now.text, align=RIGHT, font=body)
        self.elided(
            before.adjusted(0, 0, -wide - 2 * GRID, 0), title, now.text, LEFT, fonts.strong()
        )

    @contextmanager
    def clipped(self, area: QRectF) -> Iterator[None]:
        """Draw only within an area."""
        self.painter.save()
        self.painter.setClipRect(area, Qt.ClipOperation.IntersectClip)
        yield
        self.painter.restore()

    @contextmanager
    def rounded(self, area: QRectF, radius: float) -> Iterator[None]:
        """Draw only within an area with round corners."""
        path = QPainterPath()
        path.addRoundedRect(area, radius, radius)
        self.painter.save()
        self.painter.setClipPath(path)
        yield
        self.painter.restore()

    @contextmanager
    def faded(self, opacity: float) -> Iterator[None]:
        """Draw half transparent."""
        self.painter.setOpacity(opacity)
        yield
        self.painter.setOpacity(1.0)

    @contextmanager
    def sharp(self) -> Iterator[None]:
        """Draw without antialiasing, which is slow for large shapes."""
        self.painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        yield
        self.painter.setRenderHint(QPainter.RenderHint.Antialiasing)

    def _letters(self, tone: str, font: QFont | None) -> QFontMetricsF:
        font = font if font is not None else fonts.small()
        self.painter.setFont(font)
        self.painter.setPen(QColor(tone or tokens().text))
        return QFontMetricsF(font)


def text_width(text: str, font: QFont | None = None) -> float:
    """Pixels of a text, in small letters by default."""
    return QFontMetricsF(font if font is not None else fonts.small()).horizontalAdvance(text)


def text_height(font: QFont | None = None) -> float:
    """Pixels of a line, in small letters by default."""
    return QFontMetricsF(font if font is not None else fonts.small()).height()


def flow(widths: Iterable[float], room: float) -> Iterator[tuple[float, int]]:
    """The left edge and the line of each of some pieces that follow each other."""
    left, line = 0.0, 0
    for width in widths:
        if left and left + width > room:
            left, line = 0.0, line + 1
        yield left, line
        left += width + 2 * GRID


def captioned(body: QWidget, lines: Sequence[str]) -> QPixmap:
    """All of `body`, also what is scrolled out of sight, below lines of text."""
    now = tokens()
    tall = fonts.px(20)
    above = PADDING + len(lines) * tall + PADDING // 2
    ratio = body.devicePixelRatioF()
    size = body.size()
    width, height = size.width() + 2 * PADDING, size.height() + above + PADDING
    drawn = QPixmap(round(width * ratio), round(height * ratio))
    drawn.setDevicePixelRatio(ratio)
    drawn.fill(QColor(now.panel))
    painter = QPainter(drawn)
    for at, line in enumerate(lines):
        painter.setFont(fonts.strong() if at == 0 else fonts.body())
        painter.setPen(QColor(now.text if at == 0 else now.quiet))
        area = QRectF(PADDING, PADDING + at * tall, width - 2 * PADDING, tall)
        metrics = painter.fontMetrics()
        text = metrics.elidedText(line, Qt.TextElideMode.ElideRight, int(area.width()))
        painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, text)
    body.render(painter, QPoint(PADDING, above), QRegion(), TAKEN)
    painter.end()
    return drawn


def grabbed(view: QWidget, words: str) -> QImage:
    """The view as it is on the screen, with words in as many lines as they take below it."""
    drawn = view.grab()
    ratio = drawn.devicePixelRatio()
    width = round(drawn.width() / ratio)
    flags = Qt.AlignmentFlag.AlignLeft | Qt.TextFlag.TextWordWrap
    room = QRect(GRID, 0, max(width - 2 * GRID, 1), 10_000)
    measured = QImage(1, 1, QImage.Format.Format_RGB32)
    painter = QPainter(measured)
    painter.setFont(fonts.small())
    needed = painter.boundingRect(room, flags, words).height() + 2 * GRID
    painter.end()
    height = round(drawn.height() / ratio)
    made = QImage(
        round(width * ratio), round((height + needed) * ratio), QImage.Format.Format_RGB32
    )
    made.setDevicePixelRatio(ratio)
    made.fill(QColor(tokens().panel))
    painter = QPainter(made)
    painter.drawPixmap(QPoint(0, 0), drawn)
    painter.setPen(QColor(tokens().divider))
    painter.drawLine(0, height, width, height)
    painter.setFont(fonts.small())
    painter.setPen(QColor(tokens().quiet))
    painter.drawText(room.translated(0, height + GRID), flags, words)
    painter.end()
    return made
