"""Milliseconds of a word by operations and device, with the gaps named."""

from collections.abc import Sequence

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QBrush, QColor
from PySide6.QtWidgets import QWidget

from app.language import tr
from app.state.token.times import TimeShare, time_shares
from app.theme.devices import device_look, swatch_size
from app.theme.theme import tokens
from app.theme.tokens import GRID, HOST, mix, readable
from app.widgets.basics import label
from app.widgets.layouts import STRETCH, vbox
from app.widgets.numbers import milliseconds
from app.widgets.plots.bands import Bands, Look, Piece
from app.widgets.plots.legend import ChartLegend, LegendEntry
from app.widgets.plots.paper import Paper
from engine.protocol import StepRecord, StepTimes

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


class TimeBand(Bands):
    """A band as long as the step: what each device computes, then the gaps, hatched. Parts of
    `device` are framed.
    """

    pointed = Signal(int)  # the part that the person went to
    wide = 240

    def __init__(self) -> None:
        super().__init__(tr("Time of the token"))
        self.device: str | None = None
        self.shares: Sequence[TimeShare] = ()
        self._step_ns = 0
        self._empty = ""

    def show_shares(self, shares: Sequence[TimeShare], step_ns: int, empty: str = "") -> None:
        """`empty` is written where there are none."""
        self.shares, self._step_ns, self._empty = shares, step_ns, empty
        self.changed()

    def walked(self) -> None:
        self.pointed.emit(self.at)

    def whole(self) -> float:
        return self._step_ns

    def empty(self) -> str:
        return self._empty

    def head(self) -> tuple[str, str, str] | None:
        return (tr("This token"), milliseconds(self._step_ns), "ms") if self.shares else None

    def pieces(self) -> list[Piece]:
        return [
            Piece(share.ns, _look(share), _texts(share), at) for at, share in enumerate(self.shares)
        ]

    def framed(self, at: int) -> bool:
        device = self.shares[at].device
        return bool(device) and device == self.device

    def words(self, at: int) -> str:
        return describe(self.shares[at], self._step_ns)

    def in_words(self) -> str:
        if not self.shares:
            return self._empty
        return tr(
            "{step_ns} ms. {words}", step_ns=milliseconds(self._step_ns), words=self.words(self.at)
        )


def _look(share: TimeShare) -> Look:
    if not share.device:
        host = _host_brushes(mix(HOST, tokens().panel, 0.16))
        return Look(host, tokens().text, host[0])
    ground = _shade(share.group, share.device)
    return Look((ground,), readable(ground))


def _texts(share: TimeShare) -> tuple[str, ...]:
    if not share.device:
        return (milliseconds(share.ns),)
    letter = device_look(share.device).letter
    return f"{share.group}  {milliseconds(share.ns)}", share.group, letter


class TimePanel(QWidget):
    """The band, and below it what its parts are with their times; a part picks its device."""

    device_picked = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.band, self._step_ns = TimeBand(), 0
        self.legend = ChartLegend(tr("Time by part"), _draw_share, swatch_size)
        self.caption = label(tone="quiet", size="small", wrap=True)
        vbox(self.band, self.legend, self.caption, STRETCH, on=self, spacing=GRID // 2)
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
        self.band.changed()
        self.legend.show_selected([key for key in self._keys() if device and key[1] == device])

    def rows(self) -> list[list[str]]:
        """The parts as a table, titles on top."""
        return [[tr("Part"), tr("Device"), "ms", tr("Launches")]] + [
            [share.group, share.device or "host", milliseconds(share.ns), str(share.launches or "")]
            for share in self.band.shares
        ]

    def _pointed(self, at: int) -> None:
        share = self.band.shares[at]
        self.caption.setText(describe(share, self._step_ns))
        if share.device:
            self.device_picked.emit(share.device)

    def _show(self, shares: list[TimeShare], step_ns: int, empty: str) -> None:
        if (shares, step_ns) != (self.band.shares, self._step_ns):
            self._step_ns = step_ns
            self.caption.setText("")
        self.band.show_shares(shares, step_ns, empty)
        self.legend.show_entries(
            [
                LegendEntry(_key(s), tr("{group} {ns} ms", group=s.group, ns=milliseconds(s.ns)))
                for s in shares
            ]
        )

    def _keys(self) -> list[tuple[str, str]]:
        return [_key(share) for share in self.band.shares]


def split_shares(times: StepTimes) -> list[TimeShare]:
    """What is known of a step whose launches nobody recorded: computing and copying of devices."""
    shares: dict[tuple[str, str], int] = {}
    for split in times.splits:
        for group, ns in ((tr("computing"), split.compute_ns), (tr("copying"), split.copy_ns)):
            if ns:
                key = group, split.device
                shares[key] = shares.get(key, 0) + ns
    made = [TimeShare(group, device, ns) for (group, device), ns in shares.items()]
    rest = times.step_ns - sum(shares.values())
    return [*made, TimeShare(tr("host and waiting"), "", rest)] if rest > 0 else made


def describe(share: TimeShare, step_ns: int) -> str:
    """A part in words."""
    part = f"{share.ns / max(step_ns, 1) * 100:.0f} %"
    text = tr(
        "{group}: {ns} ms, {part} of the token",
        group=share.group,
        ns=milliseconds(share.ns),
        part=part,
    )
    if share.device:
        text = f"{share.device}, {text}"
    return (
        tr("{text}, in {launches} launches", text=text, launches=share.launches)
        if share.launches
        else text
    )


def _key(share: TimeShare) -> tuple[str, str]:
    return share.group, share.device


def _draw_share(paper: Paper, area: QRectF, key: object) -> None:
    assert isinstance(key, tuple)
    group, device = key
    if device:
        paper.swatch(area.left(), area.center().y(), device)
        shade = QRectF(area.left(), area.bottom() - 4, area.width(), 4)
        paper.fill(shade, _shade(group, device))
    else:
        paper.fill(area, *_host_brushes(tokens().panel))


def _shade(group: str, device: str) -> str:
    return mix(device_look(device).colour, tokens().panel, _SHADES.get(group, 0.2))


def _host_brushes(under: str) -> tuple[str, QBrush]:
    line = QColor(mix(HOST, under, 0.5))
    return mix(HOST, tokens().panel, 0.16), QBrush(line, Qt.BrushStyle.BDiagPattern)
