"""What a placement costs, before and after the edit: speed, splits, what crosses."""

from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.state.layers.lanes import HOST
from app.state.layers.layers import LayersState
from app.state.layers.words import crossing, rate
from app.theme import fonts
from app.theme.theme import tokens
from app.widgets.charts.painting import flow
from app.widgets.tips import set_tip
from engine.protocol import Repriced

LINE = 22
NO_SPEED = "The speed is unknown: the devices were not measured with this model."
NO_SPEED_HOST = "The speed is unknown: the host computes layers, which is for reference alone."
ARROW = " → "
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter


class Figure(NamedTuple):
    """A number with what it counts; `tone` says whether it became better."""

    number: str
    unit: str
    tone: str = "text"


class FiguresLine(QWidget):
    """Figures one after another, in as many lines as they need."""

    def __init__(self) -> None:
        super().__init__()
        self._figures: Sequence[Figure] = ()
        self.setAccessibleName("What the placement costs")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    @property
    def text(self) -> str:
        """The same in words."""
        return ", ".join(f"{figure.number} {figure.unit}" for figure in self._figures)

    def show_figures(self, figures: Sequence[Figure], tip: str = "") -> None:
        self._figures = figures
        self.setAccessibleDescription(self.text)
        set_tip(self, tip)
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        lines = max((line for _, line in flow(self._widths(), self.width())), default=0) + 1
        return QSize(fonts.px(280), lines * fonts.px(LINE))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self.updateGeometry()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter, now, height = QPainter(self), tokens(), fonts.px(LINE)
        widths = self._widths()
        places = zip(self._figures, widths, flow(widths, self.width()), strict=True)
        for figure, width, (left, line) in places:
            area = QRectF(left, line * height, width, height)
            painter.setFont(fonts.strong())
            painter.setPen(QColor(getattr(now, figure.tone)))
            painter.drawText(area, _LEFT, figure.number)
            taken = QFontMetricsF(fonts.strong()).horizontalAdvance(f"{figure.number} ")
            painter.setFont(fonts.small())
            painter.setPen(QColor(now.quiet))
            painter.drawText(area.adjusted(taken, 0, 0, 0), _LEFT, figure.unit)
        painter.end()

    def _widths(self) -> list[float]:
        strong, small = QFontMetricsF(fonts.strong()), QFontMetricsF(fonts.small())
        return [
            strong.horizontalAdvance(f"{figure.number} ") + small.horizontalAdvance(figure.unit) + 2
            for figure in self._figures
        ]


def figures_of(state: LayersState) -> list[Figure]:
    """Of the placement shown, with those of the file's own before them where they differ."""
    after, before = state.answer, state.base
    if after is None:
        return []
    if before is None or not state.is_edited:
        before = after
    splits = len(after.splits)
    return [
        Figure(
            _change(rate(_speed(before)), rate(_speed(after))),
            "tokens/s predicted",
            _tone(_speed(before), _speed(after)),
        ),
        Figure(
            _change(str(len(before.splits)), str(splits)),
            "split" if splits == 1 else "splits",
        ),
        Figure(
            _change(crossing(before.crossing), crossing(after.crossing)),
            "between devices for a token",
        ),
    ]


def speed_words(state: LayersState) -> str:
    """Where the predicted speed comes from, or why there is none."""
    answer = state.answer
    if answer is None:
        return ""
    if answer.speed is None:
        on_host = any(tile.device == HOST for tile in answer.tiles)
        return NO_SPEED_HOST if on_host else NO_SPEED
    spent = {**answer.speed.devices, "copies": answer.speed.copies, "host": answer.speed.host}
    parts = ", ".join(f"{name} {ns / 1e6:.2f} ms" for name, ns in spent.items() if ns)
    return f"A token takes {parts}. {answer.speed.source}"


def _speed(answer: Repriced) -> float | None:
    return answer.speed.tokens_per_s if answer.speed is not None else None


def _change(before: str, after: str) -> str:
    return after if before == after else f"{before}{ARROW}{after}"


def _tone(before: float | None, after: float | None) -> str:
    if before is None or after is None or rate(before) == rate(after):
        return "text"
    return "good" if after > before else "warn"
