"""Milliseconds of a word by operations and device, with the gaps named."""

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QBrush, QColor, QHelpEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QVBoxLayout, QWidget

from app.state.token.times import TimeShare, time_shares
from app.theme import fonts
from app.theme.devices import device_look, draw_swatch, swatch_size
from app.theme.theme import tokens
from app.theme.tokens import GRID, HOST, RADIUS_CONTROL, mix, readable
from app.widgets.basics import label
from app.widgets.charts.legend import ChartLegend, LegendEntry
from app.widgets.charts.painting import paint_head
from app.widgets.charts.walk import Walk
from app.widgets.numbers import milliseconds
from app.widgets.tips import show_tip
from engine.protocol import StepRecord, StepTimes

HEAD, BAND, LEAST = 26, 34, 3.0
_CENTER = Qt.AlignmentFlag.AlignCenter
# Opacity of a group over the panel, in its device's colour.
_SHADES = {
    "attention": 1.0,
    "feed-forward": 0.72,
    "experts": 0.72,
    "recurrent": 0.85,
    "output": 0.5,
    "norms": 0.34,
    "input": 0.34,
    "computing": 1.0,
    "copying": 0.4,
}


class TimeBand(Walk):
    """A band as long as the step: what each device computes, then the gaps, hatched. Arrows walk
    over its parts. Those of `device` are framed.
    """

    pointed = Signal(int)  # the part that the person went to

    def __init__(self) -> None:
        super().__init__()
        self.device: str | None = None
        self.shares: Sequence[TimeShare] = ()
        self._step_ns = 0
        self._empty = ""
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Time of the word")

    def show_shares(self, shares: Sequence[TimeShare], step_ns: int, empty: str = "") -> None:
        """`empty` is said where there are none."""
        self.shares, self._step_ns, self._empty = shares, step_ns, empty
        self._tell()
        self.updateGeometry()
        self.update()

    def stops(self) -> int:
        return len(self.shares)

    def walked(self) -> None:
        self._tell()
        self.pointed.emit(self.at)

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(fonts.px(240), fonts.px(HEAD + BAND))

    def areas(self) -> list[QRectF]:
        """Where each part is."""
        band = QRectF(0, fonts.px(HEAD), self.width(), fonts.px(BAND))
        whole = max(self._step_ns, sum(share.ns for share in self.shares), 1)
        room = max(band.width() - LEAST * len(self.shares), 1.0)
        found, left = [], band.left()
        for share in self.shares:
            wide = LEAST + room * share.ns / whole
            found.append(QRectF(left, band.top(), wide, band.height()))
            left += wide
        return found

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        found = self._under(event.position())
        if found is not None:
            self.go(found)

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            found = self._under(QPointF(event.pos()))
            said = describe(self.shares[found], self._step_ns) if found is not None else ""
            show_tip(event.globalPos(), said, self)
            return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter, now = QPainter(self), tokens()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if not self.shares:
            area = QRectF(0, fonts.px(HEAD), self.width(), fonts.px(BAND))
            painter.setPen(QPen(QColor(now.divider), 1, Qt.PenStyle.DashLine))
            frame = area.adjusted(0.5, 0.5, -0.5, -0.5)
            painter.drawRoundedRect(frame, RADIUS_CONTROL, RADIUS_CONTROL)
            painter.setFont(fonts.small())
            painter.setPen(QColor(now.quiet))
            painter.drawText(area, _CENTER, self._empty)
            painter.end()
            return
        head = QRectF(0, 0, self.width(), fonts.px(HEAD - 4))
        paint_head(painter, head, "This word", milliseconds(self._step_ns), "ms")
        for at, (share, area) in enumerate(zip(self.shares, self.areas(), strict=True)):
            self._paint_share(painter, share, area.adjusted(0, 0, -1, 0))
            focused = self.hasFocus() and at == self.at
            if focused or (share.device and share.device == self.device):
                painter.setPen(QPen(QColor(now.text if focused else now.accent), 2))
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawRect(area.adjusted(1, 1, -2, -1))
        painter.end()

    def _paint_share(self, painter: QPainter, share: TimeShare, area: QRectF) -> None:
        now = tokens()
        if share.device:
            look = device_look(share.device)
            ground = mix(look.colour, now.panel, _SHADES.get(share.group, 0.2))
            painter.fillRect(area, QColor(ground))
            ink = readable(ground)
            texts = (f"{share.group}  {milliseconds(share.ns)}", share.group, look.letter)
        else:
            ground = mix(HOST, now.panel, 0.16)
            painter.fillRect(area, QColor(ground))
            line = QColor(mix(HOST, ground, 0.5))
            painter.fillRect(area, QBrush(line, Qt.BrushStyle.BDiagPattern))
            ink = now.text
            texts = (milliseconds(share.ns), "", "")
        painter.setFont(fonts.small())
        metrics = painter.fontMetrics()
        fits = [text for text in texts if metrics.horizontalAdvance(text) + 6 <= area.width()]
        if fits and fits[0]:
            if not share.device:
                wide = metrics.horizontalAdvance(fits[0]) + 6
                plate = QRectF(area.center().x() - wide / 2, area.center().y() - 9, wide, 18)
                painter.fillRect(plate & area, QColor(ground))
            painter.setPen(QColor(ink))
            painter.drawText(area, _CENTER, fits[0])

    def _under(self, at: QPointF) -> int | None:
        return next((n for n, area in enumerate(self.areas()) if area.contains(at)), None)

    def _tell(self) -> None:
        if not self.shares:
            self.setAccessibleDescription(self._empty)
            return
        here = describe(self.shares[self.at], self._step_ns)
        self.setAccessibleDescription(f"{milliseconds(self._step_ns)} ms. {here}")


class TimePanel(QWidget):
    """The band, and below it what its parts are with their times; a part picks its device."""

    device_picked = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.band, self._step_ns = TimeBand(), 0
        self.legend = ChartLegend("Parts of the time", _draw_share, swatch_size)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(GRID // 2)
        column.addWidget(self.band)
        column.addWidget(self.legend)
        self.says = label(tone="quiet", size="small", wrap=True)
        column.addWidget(self.says)
        column.addStretch(1)
        self.band.pointed.connect(self._pointed)
        self.legend.picked.connect(lambda key: self.band.go(self._keys().index(key)))

    def show_step(self, step: StepRecord | None, times: StepTimes | None, empty: str) -> None:
        """A step with its launches, or only the splits of one; `empty` says why there is none."""
        if step is not None:
            self._show(time_shares(step), step.step_ns, empty)
        elif times is not None:
            self._show(split_shares(times), times.step_ns, empty)
        else:
            self._show([], 0, empty)

    def show_selected(self, device: str | None) -> None:
        """Mark the parts of a device."""
        self.band.device = device
        self.band.update()
        self.legend.show_selected([key for key in self._keys() if device and key[1] == device])

    def rows(self) -> list[list[str]]:
        """The parts as a table, titles on top."""
        return [["Part", "Device", "ms", "Launches"]] + [
            [share.group, share.device or "host", milliseconds(share.ns), str(share.launches or "")]
            for share in self.band.shares
        ]

    def _pointed(self, at: int) -> None:
        share = self.band.shares[at]
        self.says.setText(describe(share, self._step_ns))
        if share.device:
            self.device_picked.emit(share.device)

    def _show(self, shares: list[TimeShare], step_ns: int, empty: str) -> None:
        if (shares, step_ns) != (self.band.shares, self._step_ns):
            self._step_ns = step_ns
            self.says.setText("")
        self.band.show_shares(shares, step_ns, empty)
        self.legend.show_entries(
            [LegendEntry(_key(s), f"{s.group} {milliseconds(s.ns)} ms") for s in shares]
        )

    def _keys(self) -> list[tuple[str, str]]:
        return [_key(share) for share in self.band.shares]


def split_shares(times: StepTimes) -> list[TimeShare]:
    """What is known of a step whose launches nobody recorded: computing and copying of devices."""
    shares: dict[tuple[str, str], int] = {}
    for split in times.splits:
        for group, ns in (("computing", split.compute_ns), ("copying", split.copy_ns)):
            if ns:
                key = group, split.device
                shares[key] = shares.get(key, 0) + ns
    made = [TimeShare(group, device, ns) for (group, device), ns in shares.items()]
    rest = times.step_ns - sum(shares.values())
    return [*made, TimeShare("host and waiting", "", rest)] if rest > 0 else made


def describe(share: TimeShare, step_ns: int) -> str:
    """A part in words."""
    part = f"{share.ns / max(step_ns, 1) * 100:.0f} %"
    said = f"{share.group}: {milliseconds(share.ns)} ms, {part} of the word"
    if share.device:
        said = f"{share.device}, {said}"
    return f"{said}, in {share.launches} launches" if share.launches else said


def _key(share: TimeShare) -> tuple[str, str]:
    return share.group, share.device


def _draw_share(painter: QPainter, area: QRectF, key: object) -> None:
    assert isinstance(key, tuple)
    group, device = key
    if device:
        draw_swatch(painter, area.left(), area.center().y(), device)
        shade = mix(device_look(device).colour, tokens().panel, _SHADES.get(group, 0.2))
        painter.fillRect(QRectF(area.left(), area.bottom() - 4, area.width(), 4), QColor(shade))
    else:
        painter.fillRect(area, QColor(mix(HOST, tokens().panel, 0.16)))
        line = QColor(mix(HOST, tokens().panel, 0.6))
        painter.fillRect(area, QBrush(line, Qt.BrushStyle.BDiagPattern))
