"""Allocations as they happened: for each pool a stack of steps, one event after another."""

from collections.abc import Callable, Sequence
from time import localtime, strftime
from typing import cast

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QHelpEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPolygonF,
)
from PySide6.QtWidgets import QSizePolicy, QVBoxLayout, QWidget

from app.state.memory.allocations import Owner, Track
from app.state.selection import Selected
from app.theme import fonts
from app.theme.devices import component_brushes, device_look, fill_component
from app.theme.theme import tokens
from app.theme.tokens import GRID, mix
from app.views.memory.bar import pool_name
from app.views.memory.cell import cross
from app.widgets.charts.legend import ChartLegend, LegendEntry
from app.widgets.charts.painting import paint_head
from app.widgets.charts.walk import Walk
from app.widgets.lists.rows import Column
from app.widgets.numbers import mib
from app.widgets.tips import hide_tip, show_tip
from engine.protocol import MemoryEvent

HEAD, CHART, TIMES = 28, 112, 20
MARK = 3  # pixels of the line that marks what is selected
BOX = 10  # pixels of a legend's box
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
MARKED = {"refuse": "refused"}


def event_columns(title: Callable[[int | None], str]) -> tuple[Column[MemoryEvent], ...]:
    """`title` says what a layer is called."""
    return (
        Column[MemoryEvent]("Time", lambda e: clock(e.time_ns), lambda e: e.time_ns, right=True),
        Column[MemoryEvent](
            "What",
            lambda e: f"{MARKED.get(e.kind, e.kind)} {e.component}",
            tone=lambda e: {"refuse": "bad", "free": "quiet"}.get(e.kind, ""),
        ),
        Column[MemoryEvent]("Device", lambda e: e.device, mono=True),
        Column[MemoryEvent](
            "Layer",
            lambda e: title(e.layer),
            lambda e: -1 if e.layer is None else e.layer,
            right=True,
        ),
        Column[MemoryEvent]("MiB", lambda e: mib(e.size), lambda e: e.size, right=True),
        Column[MemoryEvent]("In all", lambda e: mib(e.used), lambda e: e.used, right=True),
    )


WHAT = 1


class PoolTrack(Walk):
    """Shows a `Track`. Arrows walk over its events; `pointed` tells which one is looked at."""

    pointed = Signal(object)  # MemoryEvent

    def __init__(self) -> None:
        super().__init__()
        self._track = Track("", (), {})
        self._now = Selected()
        self.selected: list[int] = []  # places of the events of what is selected
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_track(self, track: Track) -> None:
        """The last event is the present one, as long as nobody has gone elsewhere."""
        followed = self.at >= len(self._track.events) - 1
        self._track = track
        if followed:
            self._at = max(0, len(track.events) - 1)
        self._seek()
        self.setAccessibleName(f"Allocations in {track.pool} memory")
        self._tell()
        self.updateGeometry()
        self.update()

    def show_selected(self, now: Selected) -> None:
        """Mark the events of what is selected, and go to the first, unless at one of them."""
        self._now = now
        self._seek()
        self._tell()
        self.update()

    def stops(self) -> int:
        return len(self._track.events)

    def walked(self) -> None:
        self._tell()
        self.pointed.emit(self._track.events[self.at])

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(360, fonts.px(HEAD + CHART + TIMES))

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        if self.stops():
            self.go(self._under(event.position().x()))

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            if self.stops() and self._chart().contains(QPointF(event.pos())):
                said = describe_event(self._track.events[self._under(event.pos().x())])
                show_tip(event.globalPos(), said, self)
            else:
                hide_tip()
            return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        track, head = self._track, QRectF(0, 0, self.width(), fonts.px(HEAD - 6))
        now = track.events[-1].used if track.events else 0
        paint_head(painter, head, pool_name(track.pool), f"{mib(now)}, at most {mib(self._peak())}")
        self._paint_stack(painter)
        self._paint_pauses(painter)
        self._paint_refusals(painter)
        self._paint_selected(painter)
        if self.stops():
            x = self._x(self.at + 1)
            painter.setPen(QPen(QColor(tokens().accent if self.hasFocus() else tokens().text), 1))
            painter.drawLine(QPointF(x, self._chart().top()), QPointF(x, self._chart().bottom()))
        painter.end()

    # Where things are

    def _chart(self) -> QRectF:
        return QRectF(0, fonts.px(HEAD), self.width(), fonts.px(CHART))

    def _x(self, event: float) -> float:
        """The left edge of an event's step."""
        return self._chart().width() * event / max(self.stops(), 1)

    def _y(self, size: float) -> float:
        return self._chart().bottom() - self._scale() * size

    def _scale(self) -> float:
        """Pixels per byte."""
        return fonts.px(CHART) * 0.94 / max(self._track.most, 1)

    def _under(self, x: float) -> int:
        place = int(x / max(self.width(), 1) * self.stops())
        return min(max(place, 0), self.stops() - 1)

    def _peak(self) -> int:
        return max((e.used for e in self._track.events), default=0)

    def _shown(self) -> list[int]:
        """The events that are drawn: each, or one for every two pixels."""
        n, width = self.stops(), max(1, self.width() // 2)
        if n <= width:
            return list(range(n))
        return sorted({(at + 1) * n // width - 1 for at in range(width)})

    # Painting

    def _paint_stack(self, painter: QPainter) -> None:
        chart, now = self._chart(), tokens()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)  # slow
        painter.fillRect(chart, QColor(mix(now.raised, now.panel, 0.6)))
        shown = self._shown()
        under = [0] * len(shown)
        lower = self._steps(shown, under)
        for owner, heights in self._track.heights.items():
            over = [under[i] + heights[at] for i, at in enumerate(shown)]
            if any(heights[at] for at in shown):
                upper = self._steps(shown, over)
                steps = QPolygonF([*upper, *reversed(lower)])
                painter.setPen(Qt.PenStyle.NoPen)
                for brush in component_brushes(*owner):
                    painter.setBrush(brush)
                    painter.drawPolygon(steps)
                painter.setPen(QPen(QColor(now.panel), 1))
                painter.drawPolyline(upper)
                under, lower = over, upper
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(QRectF(0, chart.bottom(), chart.width(), 1), QColor(now.faint))

    def _steps(self, shown: Sequence[int], sizes: Sequence[int]) -> list[QPointF]:
        chart, points, left = self._chart(), [], 0.0
        step, scale = chart.width() / max(self.stops(), 1), self._scale()
        for at, size in zip(shown, sizes, strict=True):
            right, y = step * (at + 1), chart.bottom() - scale * size
            points += [QPointF(left, y), QPointF(right, y)]
            left = right
        return points

    def _paint_pauses(self, painter: QPainter) -> None:
        """Where something new begins, with its time of day."""
        chart, now, free = self._chart(), tokens(), -1.0
        painter.setFont(fonts.small())
        for at in self._track.pauses():
            x, text = (
                self._x(at),
                strftime("%H:%M:%S", localtime(self._track.events[at].time_ns / 1e9)),
            )
            painter.setPen(QPen(QColor(now.faint), 1, Qt.PenStyle.DotLine))
            painter.drawLine(QPointF(x, chart.top()), QPointF(x, chart.bottom() + 4))
            width = painter.fontMetrics().horizontalAdvance(text)
            if x >= free and x + width <= chart.right():
                painter.setPen(QColor(now.quiet))
                painter.drawText(QRectF(x, chart.bottom() + 2, width, fonts.px(TIMES)), _LEFT, text)
                free = x + width + 2 * GRID

    def _paint_refusals(self, painter: QPainter) -> None:
        """What was wanted, above what there was."""
        bad = QColor(tokens().bad)
        for at, event in enumerate(self._track.events):
            if event.kind != "refuse":
                continue
            top, bottom = self._y(event.used + event.size), self._y(event.used)
            width = max(self._x(at + 1) - self._x(at), 14.0)
            left = min(self._x(at), self.width() - width)
            wanted = QRectF(left, min(top, bottom - 14), width, max(bottom - top, 14.0))
            painter.setPen(QPen(bad, 1.5, Qt.PenStyle.DashLine))
            painter.setBrush(QColor(tokens().on("bad", 0.14)))
            painter.drawRect(wanted)
            cross(painter, wanted.center(), 4)

    def _paint_selected(self, painter: QPainter) -> None:
        """A line below the events of what is selected."""
        accent, bottom = QColor(tokens().accent), self._chart().bottom()
        for at in self.selected:
            left = self._x(at)
            width = max(self._x(at + 1) - left, 2.0)
            painter.fillRect(QRectF(left, bottom - MARK, width, MARK), accent)

    def _seek(self) -> None:
        events = self._track.events
        self.selected = [at for at, event in enumerate(events) if is_of(event, self._now)]
        if self.selected and self.at not in self.selected:
            self._at = self.selected[0]

    def _tell(self) -> None:
        events = self._track.events
        said = f"{len(events)} events. {describe_event(events[self.at])}" if events else ""
        self.setAccessibleDescription(said)


class PoolTracks(QWidget):
    """A track for each pool, one below the other."""

    pointed = Signal(object)  # MemoryEvent
    owner_picked = Signal(object)  # Owner

    def __init__(self) -> None:
        super().__init__()
        self._now = Selected()
        self.tracks: list[PoolTrack] = []
        self.legends: list[ChartLegend] = []
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(GRID)

    def show_tracks(self, tracks: Sequence[Track]) -> None:
        while len(self.tracks) < len(tracks):
            self._add_track()
        for at, (widget, legend) in enumerate(zip(self.tracks, self.legends, strict=True)):
            shown = tracks[at] if at < len(tracks) else Track("", (), {})
            widget.setVisible(at < len(tracks))
            widget.show_track(shown)
            legend.setAccessibleName(f"What is in {shown.pool} memory")
            legend.show_entries([LegendEntry(owner, " ".join(owner)) for owner in shown.heights])
        self.show_selected(self._now)

    def show_selected(self, now: Selected) -> None:
        """Mark what is selected, in every chart and legend."""
        changed, self._now = now != self._now, now
        for track, legend in zip(self.tracks, self.legends, strict=True):
            if changed:
                track.show_selected(now)
            legend.show_selected([owner for owner in legend.keys if _owns(owner, now)])

    def _add_track(self) -> None:
        track = PoolTrack()
        legend = ChartLegend("", _draw_owner, lambda: BOX)
        track.pointed.connect(self.pointed)
        legend.picked.connect(self.owner_picked)
        track.show_selected(self._now)
        self.tracks.append(track)
        self.legends.append(legend)
        self._column.addWidget(track)
        self._column.addWidget(legend)


def _owns(owner: object, now: Selected) -> bool:
    device, component = cast(Owner, owner)
    return device == now.device and now.component in (component, None)


def _draw_owner(painter: QPainter, area: QRectF, owner: object) -> None:
    device, component = cast(Owner, owner)
    fill_component(painter, area, device, component)
    painter.setPen(QPen(QColor(device_look(device).colour), 1))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawRect(area.adjusted(0.5, 0.5, -0.5, -0.5))


def is_of(event: MemoryEvent, now: Selected) -> bool:
    """Whether an event is of what is selected; none is where no place is."""
    if (now.layer, now.device) == (None, None):
        return False
    return (
        now.layer in (event.layer, None)
        and now.device in (event.device, None)
        and now.component in (event.component, None)
    )


def clock(time_ns: int) -> str:
    """A time of day, with milliseconds."""
    return f"{strftime('%H:%M:%S', localtime(time_ns / 1e9))}.{time_ns // 1_000_000 % 1000:03d}"


def describe_event(event: MemoryEvent) -> str:
    """An event in words."""
    layer = f" of layer {event.layer}" if event.layer is not None else ""
    what = {"allocate": "allocated", "free": "freed", "refuse": "refused"}[event.kind]
    name = f" ({event.name})" if event.name else ""
    return (
        f"{clock(event.time_ns)} {what}: {mib(event.size)} MiB for {event.component}{layer}{name}"
        f" on {event.device}; {mib(event.used)} MiB in {event.pool} memory"
    )
