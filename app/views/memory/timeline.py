"""Allocations as they happened: for each pool a stack of steps, one event after another."""

from collections.abc import Callable, Sequence
from time import localtime, strftime
from typing import cast

from PySide6.QtCore import QPointF, QRectF, Signal
from PySide6.QtWidgets import QWidget

from app.language import tr
from app.state.memory.allocations import Owner, Track
from app.state.selection import Selected
from app.theme import fonts
from app.theme.devices import component_brushes, device_look
from app.theme.theme import tokens
from app.theme.tokens import GRID, mix
from app.views.memory.bar import pool_name
from app.widgets.layouts import vbox
from app.widgets.lists.rows import Column
from app.widgets.numbers import mib
from app.widgets.plots.chart import Chart
from app.widgets.plots.legend import ChartLegend, LegendEntry
from app.widgets.plots.paper import DASHED, DOTTED, Paper, text_width
from engine.protocol import MemoryEvent

HEAD, CHART, TIMES = 28, 112, 20
MARK = 3  # pixels of the line that marks what is selected
BOX = 10  # pixels of a legend's box
MARKED = {"allocate": tr("allocate"), "free": tr("free"), "refuse": tr("refused")}


def event_columns(title: Callable[[int | None], str]) -> tuple[Column[MemoryEvent], ...]:
    """`title` says what a layer is called."""
    return (
        Column[MemoryEvent](
            tr("Time"), lambda e: clock(e.time_ns), lambda e: e.time_ns, right=True
        ),
        Column[MemoryEvent](
            tr("What"),
            lambda e: f"{MARKED.get(e.kind, e.kind)} {tr(e.component)}",
            tone=lambda e: {"refuse": "bad", "free": "quiet"}.get(e.kind, ""),
        ),
        Column[MemoryEvent](tr("Device"), lambda e: e.device, mono=True),
        Column[MemoryEvent](
            tr("Layer"),
            lambda e: title(e.layer),
            lambda e: -1 if e.layer is None else e.layer,
            right=True,
        ),
        Column[MemoryEvent]("MiB", lambda e: mib(e.size), lambda e: e.size, right=True),
        Column[MemoryEvent](tr("In all"), lambda e: mib(e.used), lambda e: e.used, right=True),
    )


WHAT = 1


class PoolTrack(Chart):
    """Shows a `Track`. Arrows walk over its events; `pointed` carries the one looked at."""

    pointed = Signal(object)  # MemoryEvent
    wide = 360

    def __init__(self) -> None:
        super().__init__()
        self._track = Track("", (), {})
        self._now = Selected()
        self.selected: list[int] = []  # places of the events of what is selected

    @property
    def track(self) -> Track:
        return self._track

    def show_track(self, track: Track) -> None:
        """The last event is the present one, as long as nobody has gone elsewhere."""
        followed = self.at >= len(self._track.events) - 1
        self._track = track
        if followed:
            self._at = max(0, len(track.events) - 1)
        self._seek()
        self.setAccessibleName(tr("Allocations in {pool} memory", pool=track.pool))
        self.changed()

    def show_selected(self, now: Selected) -> None:
        """Mark the events of what is selected, and go to the first, unless at one of them."""
        self._now = now
        self._seek()
        self.changed()

    def stops(self) -> int:
        return len(self._track.events)

    def walked(self) -> None:
        self.pointed.emit(self._track.events[self.at])

    def tall(self) -> float:
        return fonts.px(HEAD + CHART + TIMES)

    def words(self, at: int) -> str:
        return describe_event(self._track.events[at])

    def in_words(self) -> str:
        return (
            tr("{stops} events. {words}", stops=self.stops(), words=self.words(self.at))
            if self.stops()
            else ""
        )

    def under(self, place: QPointF) -> int | None:
        if not self.stops() or not self._chart().contains(place):
            return None
        return min(int(place.x() / max(self.width(), 1) * self.stops()), self.stops() - 1)

    def draw(self, paper: Paper) -> None:
        track, head = self._track, QRectF(0, 0, self.width(), fonts.px(HEAD - 6))
        used = track.events[-1].used if track.events else 0
        paper.head(
            head,
            pool_name(track.pool),
            tr("{used}, at most {peak}", used=mib(used), peak=mib(self._peak())),
            "MiB",
        )
        self._draw_stack(paper)
        self._draw_pauses(paper)
        self._draw_refusals(paper)
        for at in self.selected:
            width = max(self._x(at + 1) - self._x(at), 2.0)
            mark = QRectF(self._x(at), self._chart().bottom() - MARK, width, MARK)
            paper.fill(mark, tokens().accent)
        if self.stops():
            tone = tokens().accent if self.hasFocus() else tokens().text
            paper.line(self._upright(self._x(self.at + 1)), tone)

    # Places

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

    def _upright(self, x: float, beyond: float = 0.0) -> list[QPointF]:
        chart = self._chart()
        return [QPointF(x, chart.top()), QPointF(x, chart.bottom() + beyond)]

    def _peak(self) -> int:
        return max((e.used for e in self._track.events), default=0)

    def _shown(self) -> list[int]:
        """The events that are drawn: each, or one for every two pixels."""
        n, width = self.stops(), max(1, self.width() // 2)
        if n <= width:
            return list(range(n))
        return sorted({(at + 1) * n // width - 1 for at in range(width)})

    # Drawing

    def _draw_stack(self, paper: Paper) -> None:
        chart, now, shown = self._chart(), tokens(), self._shown()
        under = [0] * len(shown)
        lower = self._steps(shown, under)
        with paper.sharp():
            paper.fill(chart, mix(now.raised, now.panel, 0.6))
            for owner, heights in self._track.heights.items():
                over = [under[i] + heights[at] for i, at in enumerate(shown)]
                if over != under:
                    upper = self._steps(shown, over)
                    paper.shape([*upper, *reversed(lower)], *component_brushes(*owner))
                    paper.line(upper, now.panel)
                    under, lower = over, upper
        paper.fill(QRectF(0, chart.bottom(), chart.width(), 1), now.faint)

    def _steps(self, shown: Sequence[int], sizes: Sequence[int]) -> list[QPointF]:
        points, left = [], 0.0
        bottom, scale, step = self._chart().bottom(), self._scale(), self._x(1)
        for at, size in zip(shown, sizes, strict=True):
            right, y = step * (at + 1), bottom - scale * size
            points += [QPointF(left, y), QPointF(right, y)]
            left = right
        return points

    def _draw_pauses(self, paper: Paper) -> None:
        """A dotted line where something new begins, with its time of day."""
        chart, now, free = self._chart(), tokens(), -1.0
        for at in self._track.pauses():
            x = self._x(at)
            text = strftime("%H:%M:%S", localtime(self._track.events[at].time_ns / 1e9))
            paper.line(self._upright(x, 4), now.faint, 1, DOTTED)
            width = text_width(text)
            if x >= free and x + width <= chart.right():
                area = QRectF(x, chart.bottom() + 2, width + 1, fonts.px(TIMES))
                paper.text(area, text, tone=now.quiet)
                free = x + width + 2 * GRID

    def _draw_refusals(self, paper: Paper) -> None:
        """The size that was refused, above what there was."""
        now = tokens()
        for at, event in enumerate(self._track.events):
            if event.kind != "refuse":
                continue
            top, bottom = self._y(event.used + event.size), self._y(event.used)
            width = max(self._x(at + 1) - self._x(at), 14.0)
            left = min(self._x(at), self.width() - width)
            wanted = QRectF(left, min(top, bottom - 14), width, max(bottom - top, 14.0))
            paper.fill(wanted, now.on("bad", 0.14))
            paper.frame(wanted, now.bad, 1.5, style=DASHED)
            paper.cross(wanted.center(), 4, now.bad)

    def _seek(self) -> None:
        events = self._track.events
        self.selected = [at for at, event in enumerate(events) if is_of(event, self._now)]
        if self.selected and self.at not in self.selected:
            self._at = self.selected[0]


class PoolTracks(QWidget):
    """A track for each pool, one below the other."""

    pointed = Signal(object)  # MemoryEvent
    owner_picked = Signal(object)  # Owner

    def __init__(self) -> None:
        super().__init__()
        self._now = Selected()
        self.tracks: list[PoolTrack] = []
        self.legends: list[ChartLegend] = []
        self._column = vbox(on=self)

    def show_tracks(self, tracks: Sequence[Track]) -> None:
        while len(self.tracks) < len(tracks):
            self._add_track()
        for at, (widget, legend) in enumerate(zip(self.tracks, self.legends, strict=True)):
            shown = tracks[at] if at < len(tracks) else Track("", (), {})
            widget.setVisible(at < len(tracks))
            widget.show_track(shown)
            legend.setAccessibleName(tr("Contents of {pool} memory", pool=shown.pool))
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


def _draw_owner(paper: Paper, area: QRectF, owner: object) -> None:
    device, component = cast(Owner, owner)
    paper.component(area, device, component)
    paper.frame(area.adjusted(0.5, 0.5, -0.5, -0.5), device_look(device).colour)


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
    layer = tr(" of layer {layer}", layer=event.layer) if event.layer is not None else ""
    what = {"allocate": tr("allocated"), "free": tr("freed"), "refuse": tr("refused")}[event.kind]
    name = f" ({event.name})" if event.name else ""
    return tr(
        "{clock} {what}: {size} MiB for {component}{layer}{name} on {device}; {used}"
        " MiB in {pool} memory",
        clock=clock(event.time_ns),
        what=what,
        size=mib(event.size),
        component=tr(event.component),
        layer=layer,
        name=name,
        device=event.device,
        used=mib(event.used),
        pool=event.pool,
    )
