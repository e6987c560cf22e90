"""The logit lens: a row a layer with the words it would say, and the climb of the one that came."""

from math import log

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QFont,
    QFontMetricsF,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.state.token.readings import LensReading
from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import GRID, mix, readable
from app.views.token.words import percent, place, shown
from app.widgets.basics import TEXT_SIZE
from app.widgets.tips import show_tip

OUTPUT = "out"
EMPTY = "A row for each layer of the model that is open: the words it would say."
CELL, CLIMB, LABEL = 62, 90, 30  # pixels of a word, of the climb, of a layer's number
ABOVE = 22  # the titles
EMPTY_ROWS = 4  # that EMPTY has room in
_CENTER = Qt.AlignmentFlag.AlignCenter
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_TOP = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop | Qt.TextFlag.TextWordWrap
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class LensChart(QWidget):
    """The output is on top, layer 0 at the bottom. Arrows walk over rows and words; a click or
    a walk points at a layer, Enter opens it. Before there is a reading it shows `layers` empty.
    """

    pointed = Signal(int)  # a layer's number
    opened = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.reading: LensReading | None = None
        self._layers: list[int] = []
        self._n_layer = 0
        self.row, self.column = 0, 0  # as shown: row 0 is on top
        self._selected: int | None = None
        self._measure()
        self.setAccessibleName("Logit lens")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    # What is shown

    def show_reading(self, reading: LensReading | None, n_layer: int) -> None:
        """A reading, or the layers of a model that has not said anything yet."""
        self.reading, self._n_layer = reading, n_layer
        self._layers = reading.layers[::-1] if reading is not None else [*range(n_layer)][::-1]
        self.row = min(self.row, max(len(self._layers) - 1, 0))
        self._measure()
        self.updateGeometry()
        self._tell()
        self.update()

    def show_selected(self, layer: int | None) -> None:
        """Mark a layer that is selected."""
        if layer != self._selected:
            self._selected = layer
            if layer in self._layers:
                self.row = self._layers.index(layer)
                self._tell()
            self.update()

    def says(self, row: int, column: int | None = None) -> str:
        """A row, or one of its words, in numbers."""
        if not 0 <= row < len(self._layers):
            return ""
        title, reading = f"Layer {self._layers[row]}", self.reading
        if reading is None:
            return title
        at = len(reading) - 1 - row
        if at == len(reading) - 1:
            title = "The model's answer"
        guesses = reading.guesses(at)
        if column is None or not 0 <= column < len(guesses):
            said = ", ".join(f"{shown(g.text)} {percent(g.probability)}" for g in guesses[:3])
        else:
            said = f"{shown(guesses[column].text)} {percent(guesses[column].probability)}"
        word, rank = shown(reading.wanted_text), int(reading.rank[at])
        chance = percent(float(reading.probability[at]))
        entropy = f"{float(reading.entropy[at]):.1f} bits"
        return f"{title}: {said}. “{word}” is at rank {place(rank)} with {chance}; {entropy}"

    def title_of(self, layer: int) -> str:
        """How a row is called."""
        last = self.reading is not None and layer == self.reading.layers[-1]
        return OUTPUT if last else str(layer)

    # Where things are

    def columns(self) -> int:
        """How many words a row has room for."""
        return self._columns

    @property
    def row_height(self) -> float:
        return self._tall

    def _measure(self) -> None:
        """Reckon what all rows share; again for another size, text or reading."""
        metrics = QFontMetricsF(fonts.small())
        rows, least = max(len(self._layers), 1), metrics.height() + 3
        self._above, self._label = fonts.px(ABOVE), fonts.px(LABEL)
        self._tall = max(least, min((self.height() - self._above) / rows, 2 * least))
        self._numbers = metrics.horizontalAdvance("262\u2009144  < 0.1 %") + 2 * GRID
        right = self.width() - self._numbers
        room = right - self._label - 2 * fonts.px(CELL)
        wide = min(max(room * 0.3, fonts.px(CLIMB) / 2), fonts.px(CLIMB))
        self.climb = QRectF(right - wide, self._above, wide, len(self._layers) * self._tall)
        room = self.climb.left() - self._label - GRID
        most = self.reading.width if self.reading is not None else 8
        self._columns = max(1, min(most, int(room // fonts.px(CELL))))
        self._wide = room / self._columns

    def cell_area(self, row: int, column: int) -> QRectF:
        """Where a word stands."""
        top = self._above + row * self._tall
        return QRectF(self._label + column * self._wide, top, self._wide, self._tall)

    def row_area(self, row: int) -> QRectF:
        return QRectF(0, self._above + row * self._tall, self.width(), self._tall)

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(fonts.px(420), self.minimumSizeHint().height())

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        tall = QFontMetricsF(fonts.small()).height() + 3
        rows = len(self._layers) or EMPTY_ROWS
        return QSize(fonts.px(240), round(fonts.px(ABOVE) + rows * tall) + 1)

    def _at(self, point: QPointF) -> tuple[int, int | None] | None:
        row = int((point.y() - self._above) // self.row_height)
        if point.y() < self._above or not 0 <= row < len(self._layers):
            return None
        inside = (n for n in range(self.columns()) if self.cell_area(row, n).contains(point))
        return row, next(inside, None)

    # Drawing

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(fonts.small())
        self._paint_titles(painter)
        if not self._layers:
            painter.drawText(self.rect().adjusted(0, fonts.px(ABOVE), 0, 0), _TOP, EMPTY)
        seen = event.rect().toRectF()
        for row in range(len(self._layers)):
            if self.row_area(row).intersects(seen):
                self._paint_row(painter, row)
        if self.reading is not None:
            self._paint_climb(painter, self.reading)
        self._paint_cursor(painter)
        painter.end()

    def _paint_titles(self, painter: QPainter) -> None:
        painter.setPen(QColor(tokens().quiet))
        if not self._layers:
            return
        high, climb = self._above, self.climb
        painter.drawText(QRectF(0, 0, self._label - 6, high), _RIGHT, "#")
        words = QRectF(self._label + 4, 0, climb.left() - self._label - GRID, high)
        _write(painter, words, _LEFT, ("what each layer would say", "would say"))
        text = f"rank of “{shown(self.reading.wanted_text)}”" if self.reading is not None else ""
        right = QRectF(climb.left(), 0, self.width() - climb.left(), high)
        _write(painter, right, _RIGHT, (text, "its rank", "rank"))

    def _paint_row(self, painter: QPainter, row: int) -> None:
        now, area, layer = tokens(), self.row_area(row), self._layers[row]
        if layer == self._selected:
            painter.fillRect(area, QColor(now.selection))
        painter.setPen(QColor(now.text if layer == self._selected else now.quiet))
        name = QRectF(0, area.top(), self._label - 6, area.height())
        painter.drawText(name, _RIGHT, self.title_of(layer))
        reading = self.reading
        if reading is None:
            for column in range(self.columns()):
                cell = self.cell_area(row, column).adjusted(1, 1, -1, -1)
                painter.fillRect(cell, QColor(now.raised))
            return
        at = len(reading) - 1 - row
        for column, guess in enumerate(reading.guesses(at)[: self.columns()]):
            cell = self.cell_area(row, column).adjusted(1, 1, -1, -1)
            ground = mix(now.accent, now.panel, 0.04 + 0.8 * guess.probability)
            painter.fillRect(cell, QColor(ground))
            wanted = guess.token == reading.wanted
            painter.setFont(_bold() if wanted else fonts.small())
            painter.setPen(QColor(readable(ground)))
            _elide(painter, cell.adjusted(4, 0, -3, 0), shown(guess.text))
            if wanted:
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.setPen(QPen(QColor(now.warn), 1.5))
                painter.drawRect(cell.adjusted(0.5, 0.5, -0.5, -0.5))
        painter.setFont(fonts.small())
        numbers = QRectF(self.climb.right(), area.top(), self._numbers - 2, area.height())
        first = reading.rank[at] == 1
        painter.setPen(QColor(now.text if first else now.quiet))
        painter.drawText(numbers, _RIGHT, percent(float(reading.probability[at])))
        wide = painter.fontMetrics().horizontalAdvance("< 0.1 %  ")
        painter.drawText(numbers.adjusted(0, 0, -wide, 0), _RIGHT, place(int(reading.rank[at])))

    def _paint_climb(self, painter: QPainter, reading: LensReading) -> None:
        """The rank as a line, rank 1 at the right; the probability as bars behind it."""
        now, area = tokens(), self.climb
        worst = max(int(reading.rank.max()), 2)
        dots = []
        for row in range(len(reading)):
            at = len(reading) - 1 - row
            line = self.row_area(row)
            share = float(reading.probability[at])
            bar = QRectF(area.right() - area.width() * share, line.top() + 1,
                         area.width() * share, line.height() - 2)  # fmt: skip
            painter.fillRect(bar, QColor(mix(now.warn, now.panel, 0.25)))
            left = log(int(reading.rank[at])) / log(worst)
            dots.append(QPointF(area.right() - 3 - (area.width() - 6) * left, line.center().y()))
        painter.setPen(QPen(QColor(now.divider), 1))
        painter.drawLine(area.topRight(), area.bottomRight())
        painter.setPen(QPen(QColor(now.warn), 1.5))
        painter.drawPolyline(dots)
        leads = reading.leads_from
        for row, dot in enumerate(dots):
            first = leads is not None and row == len(reading) - 1 - leads
            painter.setBrush(QColor(now.warn if first else now.panel))
            radius = 4.0 if first else 2.0
            painter.drawEllipse(dot, radius, radius)
        if leads is not None:
            line = self.row_area(len(reading) - 1 - leads)
            painter.setPen(QPen(QColor(now.warn), 1, Qt.PenStyle.DashLine))
            y = line.bottom()
            painter.drawLine(QPointF(self._label, y), QPointF(area.right(), y))

    def _paint_cursor(self, painter: QPainter) -> None:
        if not self.hasFocus() or not self._layers:
            return
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(QColor(tokens().text), 2))
        area = self.cell_area(self.row, min(self.column, self.columns() - 1))
        painter.drawRect((area if self.reading else self.row_area(self.row)).adjusted(1, 1, -1, -1))

    # Mouse and keyboard

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            at = self._at(QPointF(event.pos()))
            show_tip(event.globalPos(), self.says(*at) if at is not None else "", self)
            return True
        return super().event(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        at = self._at(event.position())
        if at is not None:
            self._go(at[0], at[1] if at[1] is not None else self.column)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        at = self._at(event.position())
        if at is not None:
            self.opened.emit(self._layers[at[0]])

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        steps = {
            Qt.Key.Key_Up: (-1, 0),
            Qt.Key.Key_Down: (1, 0),
            Qt.Key.Key_Left: (0, -1),
            Qt.Key.Key_Right: (0, 1),
            Qt.Key.Key_PageUp: (-10, 0),
            Qt.Key.Key_PageDown: (10, 0),
            Qt.Key.Key_Home: (-len(self._layers), 0),
            Qt.Key.Key_End: (len(self._layers), 0),
        }
        key = Qt.Key(event.key())
        if self._layers and key in steps:
            down, right = steps[key]
            self._go(self.row + down, self.column + right)
        elif self._layers and key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.opened.emit(self._layers[self.row])
        else:
            super().keyPressEvent(event)

    def _go(self, row: int, column: int) -> None:
        self.row = min(max(row, 0), len(self._layers) - 1)
        self.column = min(max(column, 0), self.columns() - 1)
        self._tell()
        self.update()
        self.pointed.emit(self._layers[self.row])

    def _tell(self) -> None:
        reading = self.reading
        said = self.says(self.row, self.column)
        if reading is not None and reading.leads_from is not None:
            said += f". It leads from layer {reading.layers[reading.leads_from]} on"
        self.setAccessibleDescription(said)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in TEXT_SIZE:
            self._measure()
            self.updateGeometry()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._measure()

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        super().focusInEvent(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        super().focusOutEvent(event)
        self.update()


def _bold() -> QFont:
    font = fonts.small()
    font.setBold(True)
    return font


def _elide(painter: QPainter, area: QRectF, text: str) -> None:
    metrics = painter.fontMetrics()
    said = metrics.elidedText(text, Qt.TextElideMode.ElideRight, max(0, int(area.width())))
    painter.drawText(area, _LEFT, said)


def _write(
    painter: QPainter, area: QRectF, align: Qt.AlignmentFlag, texts: tuple[str, ...]
) -> None:
    """The first text that has room."""
    metrics = painter.fontMetrics()
    fits = (text for text in texts if metrics.horizontalAdvance(text) <= area.width())
    painter.drawText(area, align, next(fits, ""))
