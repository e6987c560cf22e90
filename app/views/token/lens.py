"""The logit lens: the words each layer would say, and the climb of the word that came."""

from math import log

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QResizeEvent
from PySide6.QtWidgets import QSizePolicy

from app.language import tr
from app.state.token.readings import LensReading
from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import GRID, mix, readable
from app.views.token.section import percent, place, shown
from app.widgets.basics import TEXT_SIZE
from app.widgets.plots.chart import Chart
from app.widgets.plots.paper import DASHED, LEFT, RIGHT, Paper, text_height, text_width

OUTPUT = "out"
EMPTY = tr("One row per layer: the tokens it would predict.")
CELL, CLIMB, LABEL = 62, 90, 30  # pixels of a word, of the climb, of a layer's number
ABOVE = 22  # the titles
EMPTY_ROWS = 4  # that EMPTY has room in


class LensChart(Chart):
    """The output is on top, layer 0 at the bottom. Arrows walk over rows and words; a click or
    a walk points at a layer, Enter opens it. Before there is a reading it shows `layers` empty.
    """

    pointed = Signal(int)  # a layer's number
    opened = Signal(int)
    wide = 420

    def __init__(self) -> None:
        super().__init__(tr("Logit lens"))
        self.reading: LensReading | None = None
        self.layers: list[int] = []
        self.selected: int | None = None
        self.column = 0
        self._measure()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def show_reading(self, reading: LensReading | None, n_layer: int) -> None:
        """A reading, or the layers of a model that has not said anything yet."""
        self.reading = reading
        self.layers = reading.layers[::-1] if reading is not None else [*range(n_layer)][::-1]
        self._at = min(self._at, max(len(self.layers) - 1, 0))
        self._measure()
        self.changed()

    def show_selected(self, layer: int | None) -> None:
        """Mark a layer that is selected."""
        if layer != self.selected:
            self.selected = layer
            if layer in self.layers:
                self._at = self.layers.index(layer)
            self.changed()

    @property
    def row(self) -> int:
        """The present row; the first is on top."""
        return self.at

    def cell_words(self, row: int, column: int | None = None) -> str:
        """A row, or one of its words, in numbers."""
        if not 0 <= row < len(self.layers):
            return ""
        title, reading = tr("Layer {layers}", layers=self.layers[row]), self.reading
        if reading is None:
            return title
        at = len(reading) - 1 - row
        if at == len(reading) - 1:
            title = tr("The model's answer")
        guesses = reading.guesses(at)
        if column is None or not 0 <= column < len(guesses):
            text = ", ".join(f"{shown(g.text)} {percent(g.probability)}" for g in guesses[:3])
        else:
            text = f"{shown(guesses[column].text)} {percent(guesses[column].probability)}"
        word, rank = shown(reading.wanted_text), int(reading.rank[at])
        chance = percent(float(reading.probability[at]))
        entropy = tr("{entropy:.1f} bits", entropy=float(reading.entropy[at]))
        return tr(
            "{title}: {text}. “{word}” is at rank {rank} with {chance}; {entropy}",
            title=title,
            text=text,
            word=word,
            rank=place(rank),
            chance=chance,
            entropy=entropy,
        )

    def title_of(self, layer: int) -> str:
        """How a row is called."""
        last = self.reading is not None and layer == self.reading.layers[-1]
        return OUTPUT if last else str(layer)

    def stops(self) -> int:
        return len(self.layers)

    def words(self, at: int) -> str:
        return self.cell_words(at, self.column)

    def in_words(self) -> str:
        text, reading = self.words(self.at), self.reading
        if reading is not None and reading.leads_from is not None:
            text += tr(
                ". It leads from layer {layers} on", layers=reading.layers[reading.leads_from]
            )
        return text

    def tip(self, place: QPointF) -> str:
        row = self.under(place)
        return "" if row is None else self.cell_words(row, self._column_at(row, place))

    # Places

    def columns(self) -> int:
        """The number of words that a row has room for."""
        return self._columns

    def areas(self) -> list[QRectF]:
        return [self.row_area(row) for row in range(self.stops())]

    def _measure(self) -> None:
        """Find what all rows share; again for another size, text or reading."""
        rows, least = max(len(self.layers), 1), text_height() + 3
        self._above, self._label = fonts.px(ABOVE), fonts.px(LABEL)
        self._tall = max(least, min((self.height() - self._above) / rows, 2 * least))
        self._numbers = text_width("262\u2009144  < 0.1 %") + 2 * GRID
        right = self.width() - self._numbers
        room = right - self._label - 2 * fonts.px(CELL)
        wide = min(max(room * 0.3, fonts.px(CLIMB) / 2), fonts.px(CLIMB))
        self.climb = QRectF(right - wide, self._above, wide, len(self.layers) * self._tall)
        room = self.climb.left() - self._label - GRID
        most = self.reading.width if self.reading is not None else 8
        self._columns = max(1, min(most, int(room // fonts.px(CELL))))
        self._wide = room / self._columns

    def cell_area(self, row: int, column: int) -> QRectF:
        """The place of a word."""
        top = self._above + row * self._tall
        return QRectF(self._label + column * self._wide, top, self._wide, self._tall)

    def row_area(self, row: int) -> QRectF:
        return QRectF(0, self._above + row * self._tall, self.width(), self._tall)

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        return QSize(fonts.px(240), round(self.tall()))

    def tall(self) -> float:
        rows = len(self.layers) or EMPTY_ROWS
        return fonts.px(ABOVE) + rows * (text_height() + 3) + 1

    def _column_at(self, row: int, point: QPointF) -> int | None:
        cells = range(self._columns)
        return next((n for n in cells if self.cell_area(row, n).contains(point)), None)

    # Drawing

    def draw(self, paper: Paper) -> None:
        if not self.layers:
            room = self.rect().toRectF().adjusted(0, fonts.px(ABOVE), 0, 0)
            paper.wrapped(room, EMPTY, tokens().quiet)
            return
        self._draw_titles(paper)
        for row in range(len(self.layers)):
            if self.row_area(row).intersects(paper.seen):
                self._draw_row(paper, row)
        if self.reading is not None:
            self._draw_climb(paper, self.reading)
        if self.hasFocus():
            cell = self.cell_area(self.row, min(self.column, self._columns - 1))
            area = cell if self.reading else self.row_area(self.row)
            paper.frame(area.adjusted(1, 1, -1, -1), tokens().text, 2)

    def _draw_titles(self, paper: Paper) -> None:
        quiet, high, climb = tokens().quiet, self._above, self.climb
        paper.text(QRectF(0, 0, self._label - 6, high), "#", tone=quiet, align=RIGHT)
        words = QRectF(self._label + 4, 0, climb.left() - self._label - GRID, high)
        paper.text(words, tr("prediction of each layer"), tr("prediction"), tone=quiet)
        text = (
            tr("rank of “{wanted_text}”", wanted_text=shown(self.reading.wanted_text))
            if self.reading is not None
            else ""
        )
        right = QRectF(climb.left(), 0, self.width() - climb.left(), high)
        paper.text(right, text, tr("its rank"), tr("rank"), tone=quiet, align=RIGHT)

    def _draw_row(self, paper: Paper, row: int) -> None:
        now, area, layer, reading = tokens(), self.row_area(row), self.layers[row], self.reading
        if layer == self.selected:
            paper.fill(area, now.selection)
        name = QRectF(0, area.top(), self._label - 6, area.height())
        tone = now.text if layer == self.selected else now.quiet
        paper.text(name, self.title_of(layer), tone=tone, align=RIGHT)
        cells = [self.cell_area(row, n).adjusted(1, 1, -1, -1) for n in range(self._columns)]
        if reading is None:
            paper.fills(cells, now.raised)
            return
        at = len(reading) - 1 - row
        for cell, guess in zip(cells, reading.guesses(at), strict=False):
            ground = mix(now.accent, now.panel, 0.04 + 0.8 * guess.probability)
            paper.fill(cell, ground)
            font, wanted = fonts.small(), guess.token == reading.wanted
            font.setBold(wanted)
            inside = cell.adjusted(4, 0, -3, 0)
            paper.elided(inside, shown(guess.text), readable(ground), LEFT, font)
            if wanted:
                paper.frame(cell.adjusted(0.5, 0.5, -0.5, -0.5), now.warn, 1.5)
        numbers = QRectF(self.climb.right(), area.top(), self._numbers - 2, area.height())
        tone = now.text if reading.rank[at] == 1 else now.quiet
        paper.text(numbers, percent(float(reading.probability[at])), tone=tone, align=RIGHT)
        ranks = numbers.adjusted(0, 0, -text_width("< 0.1 %  "), 0)
        paper.text(ranks, place(int(reading.rank[at])), tone=tone, align=RIGHT)

    def _draw_climb(self, paper: Paper, reading: LensReading) -> None:
        """The rank as a line, rank 1 at the right; the probability as bars behind it."""
        now, area = tokens(), self.climb
        worst, dots = max(int(reading.rank.max()), 2), []
        for row in range(len(reading)):
            at, line = len(reading) - 1 - row, self.row_area(row)
            bar = QRectF(area.left(), line.top() + 1, area.width(), line.height() - 2)
            bar.setLeft(area.right() - area.width() * float(reading.probability[at]))
            paper.fill(bar, mix(now.warn, now.panel, 0.25))
            left = log(int(reading.rank[at])) / log(worst)
            dots.append(QPointF(area.right() - 3 - (area.width() - 6) * left, line.center().y()))
        paper.line([area.topRight(), area.bottomRight()], now.divider)
        paper.line(dots, now.warn, 1.5)
        leads = None if reading.leads_from is None else len(reading) - 1 - reading.leads_from
        for row, dot in enumerate(dots):
            first = row == leads
            paper.dot(dot, 4 if first else 2, now.warn if first else now.panel, now.warn, 1.5)
        if leads is not None:
            y = self.row_area(leads).bottom()
            ends = [QPointF(self._label, y), QPointF(area.right(), y)]
            paper.line(ends, now.warn, 1, DASHED)

    # Mouse and keyboard

    def walked(self) -> None:
        self.pointed.emit(self.layers[self.at])

    def chosen(self) -> bool:
        self.opened.emit(self.layers[self.at])
        return True

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        row = self.under(event.position())
        if row is not None and event.button() == Qt.MouseButton.LeftButton:
            column = self._column_at(row, event.position())
            self._go_to(row, self.column if column is None else column)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        if self.under(event.position()) is not None:
            self.chosen()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        keys, rows = Qt.Key, len(self.layers)
        steps = {
            keys.Key_Up: (-1, 0),
            keys.Key_Down: (1, 0),
            keys.Key_Left: (0, -1),
            keys.Key_Right: (0, 1),
            keys.Key_PageUp: (-10, 0),
            keys.Key_PageDown: (10, 0),
            keys.Key_Home: (-rows, 0),
            keys.Key_End: (rows, 0),
        }
        step = steps.get(keys(event.key()))
        if rows and step is not None:
            self._go_to(self.row + step[0], self.column + step[1])
        else:
            super().keyPressEvent(event)

    def _go_to(self, row: int, column: int) -> None:
        self.column = min(max(column, 0), self._columns - 1)
        self.go(min(max(row, 0), len(self.layers) - 1))

    def changed(self) -> None:
        self._measure()
        super().changed()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in TEXT_SIZE:
            self._measure()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._measure()
