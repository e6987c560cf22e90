"""The splits of a token: a band as long as the step, and the numbers below."""

from collections.abc import Callable, Iterator, Sequence

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QHelpEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QSizePolicy, QVBoxLayout, QWidget

from app.theme import fonts
from app.theme.devices import draw_swatch, fill_component, swatch_size
from app.theme.theme import tokens
from app.theme.tokens import GRID, RADIUS_CONTROL
from app.widgets.charts.legend import ChartLegend, LegendEntry
from app.widgets.charts.painting import paint_head
from app.widgets.charts.walk import Walk
from app.widgets.lists.rows import Column
from app.widgets.numbers import grouped, microseconds, milliseconds
from app.widgets.tips import show_tip
from engine.protocol import SplitRecord, StepTimes

REST = "host and waiting"
HEAD, BAND, LEAST = 28, 32, 3.0
_CENTER = Qt.AlignmentFlag.AlignCenter

Numbered = tuple[int, SplitRecord]


def _number(
    title: str, value: Callable[[SplitRecord], int], text: Callable[[int], str]
) -> Column[Numbered]:
    return Column(title, lambda n: text(value(n[1])), lambda n: value(n[1]), right=True)


SPLITS = (
    Column[Numbered]("#", lambda n: str(n[0]), lambda n: n[0], right=True),
    Column[Numbered]("Device", lambda n: n[1].device, mono=True),
    _number("Nodes", lambda s: s.n_nodes, grouped),
    _number("ms", lambda s: s.compute_ns, milliseconds),
    _number("KiB in", lambda s: s.copied, lambda size: f"{size / 1024:.1f}"),
    _number("µs in", lambda s: s.copy_ns, microseconds),
    Column[Numbered]("From – to", lambda n: nodes_of(n[1]), quiet=True),
)


class SplitBand(Walk):
    """Shows `StepTimes`: what devices compute is solid, copies are hatched, the rest is the host's
    and waiting. Arrows walk over the splits.
    """

    pointed = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self._times: StepTimes | None = None
        self._selected: int | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Splits of a token")

    def show_times(self, times: StepTimes | None) -> None:
        self._times = times
        self.setAccessibleDescription(self._words())
        self.updateGeometry()
        self.update()

    def show_selected(self, number: int | None) -> None:
        """Mark the split that is selected."""
        self._selected = number
        if number is not None:
            self._at = number
        self.setAccessibleDescription(self._words())
        self.update()

    def stops(self) -> int:
        return len(self._splits())

    def walked(self) -> None:
        self.setAccessibleDescription(self._words())
        self.pointed.emit(self.at)

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(fonts.px(280), fonts.px(HEAD + BAND))

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        found = self._under(event.position())
        if found is not None:
            self.go(found)

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            found = self._under(QPointF(event.pos()))
            said = describe_split(found, self._splits()[found]) if found is not None else ""
            show_tip(event.globalPos(), said, self)
            return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        area, now, times = self._band(), tokens(), self._times
        painter.setPen(QPen(QColor(now.divider), 1, Qt.PenStyle.DashLine))
        painter.drawRoundedRect(area.adjusted(0.5, 0.5, -0.5, -0.5), RADIUS_CONTROL, RADIUS_CONTROL)
        if times is None:
            painter.setFont(fonts.small())
            painter.setPen(QColor(now.quiet))
            painter.drawText(area, _CENTER, "nothing measured yet: ask something")
        else:
            head = QRectF(0, 0, self.width(), fonts.px(HEAD - 6))
            paint_head(painter, head, "One token", milliseconds(times.step_ns), "ms")
            for number, (copied, computed) in enumerate(self._places()):
                self._paint_split(painter, number, copied, computed)
            self._paint_rest(painter, times)
        painter.end()

    def _paint_split(
        self, painter: QPainter, number: int, copied: QRectF, computed: QRectF
    ) -> None:
        split, now = self._splits()[number], tokens()
        fill_component(painter, copied, split.device, "staging")
        ink = fill_component(painter, computed.adjusted(0, 0, -1, 0), split.device, "weights")
        painter.setFont(fonts.small())
        painter.setPen(QColor(ink))
        text = f"{number}  {milliseconds(split.compute_ns)}"
        for said in (text, str(number)):
            if painter.fontMetrics().horizontalAdvance(said) <= computed.width() - 8:
                painter.drawText(computed, _CENTER, said)
                break
        focused = self.hasFocus() and number == self.at
        if focused or number == self._selected:
            tone = now.text if focused else now.accent
            painter.setPen(QPen(QColor(tone), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(copied.united(computed).adjusted(1, 1, -2, -1))

    def _paint_rest(self, painter: QPainter, times: StepTimes) -> None:
        """What no device accounts for, behind the last split."""
        band, ends = self._band(), [computed.right() for _, computed in self._places()]
        rest = QRectF(band).adjusted(max([*ends, 0.0]) - band.left(), 0, 0, 0)
        painter.setFont(fonts.small())
        painter.setPen(QColor(tokens().quiet))
        text = milliseconds(rest_ns(times))
        for said in (f"{REST} {text}", text):
            if painter.fontMetrics().horizontalAdvance(said) <= rest.width() - GRID:
                painter.drawText(rest, _CENTER, said)
                return

    # Where things are

    def _splits(self) -> Sequence[SplitRecord]:
        return self._times.splits if self._times is not None else ()

    def _band(self) -> QRectF:
        return QRectF(0, fonts.px(HEAD), self.width(), fonts.px(BAND))

    def _places(self) -> Iterator[tuple[QRectF, QRectF]]:
        """Of every split its copies and its launches; the step is as long as the band."""
        splits, band = self._splits(), self._band()
        spent = sum(split.copy_ns + split.compute_ns for split in splits)
        whole = max(self._times.step_ns if self._times is not None else 1, spent, 1)
        room = max(band.width() - LEAST * len(splits), 1.0)
        left = band.left()
        for split in splits:
            widths = room * split.copy_ns / whole, LEAST + room * split.compute_ns / whole
            copied = QRectF(left, band.top(), widths[0], band.height())
            computed = QRectF(copied.right(), band.top(), widths[1], band.height())
            yield copied, computed
            left = computed.right()

    def _under(self, at: QPointF) -> int | None:
        for number, (copied, computed) in enumerate(self._places()):
            if copied.united(computed).contains(at):
                return number
        return None

    def _words(self) -> str:
        if self._times is None:
            return "Nothing measured yet"
        said = f"{milliseconds(self._times.step_ns)} ms in {self.stops()} splits"
        said += f", {REST} {milliseconds(rest_ns(self._times))} ms"
        if not self.stops():
            return said
        return f"{said}. {describe_split(self.at, self._splits()[self.at])}"


class SplitsChart(QWidget):
    """The band, and below it the devices that its colours stand for."""

    pointed = Signal(int)  # the place of a split
    device_picked = Signal(object)  # str

    def __init__(self) -> None:
        super().__init__()
        self.band = SplitBand()
        self.legend = ChartLegend("Devices of the splits", _draw_device, swatch_size)
        self.band.pointed.connect(self.pointed)
        self.legend.picked.connect(self.device_picked)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        column.addWidget(self.band)
        column.addWidget(self.legend)

    def show_times(self, times: StepTimes | None) -> None:
        self.band.show_times(times)
        entries: list[LegendEntry] = []
        if times is not None:
            devices = dict.fromkeys(split.device for split in times.splits)
            entries = [LegendEntry(device, device) for device in devices]
            entries.append(LegendEntry(None, f"{REST}: {milliseconds(rest_ns(times))} ms"))
        self.legend.show_entries(entries)

    def show_selected(self, number: int | None, device: str | None) -> None:
        """Mark the split and the device that are selected."""
        self.band.show_selected(number)
        self.legend.show_selected(() if device is None else (device,))


def _draw_device(painter: QPainter, area: QRectF, device: object) -> None:
    draw_swatch(painter, area.left(), area.center().y(), str(device))


def rest_ns(times: StepTimes) -> int:
    """Nanoseconds of a step in which no device computes or copies: launches, sampling, waiting."""
    return max(0, times.step_ns - sum(s.copy_ns + s.compute_ns for s in times.splits))


def describe_split(number: int, split: SplitRecord) -> str:
    """A split in words."""
    said = (
        f"Split {number} on {split.device}: {grouped(split.n_nodes)} nodes, {nodes_of(split)};"
        f" computes for {milliseconds(split.compute_ns)} ms"
    )
    if split.copies:
        pieces = "copy" if split.copies == 1 else "copies"
        said += f" after {split.copies} {pieces} of {split.copied / 1024:.1f} KiB"
        said += f" in {microseconds(split.copy_ns)} µs"
    return said


def nodes_of(split: SplitRecord) -> str:
    """The first and the last of its nodes."""
    return f"{split.first} – {split.last}" if split.n_nodes > 1 else split.first
