"""The splits of a token: a band as long as the step, and the numbers below."""

from collections.abc import Callable

from PySide6.QtCore import QRectF, Signal
from PySide6.QtWidgets import QWidget

from app.language import decimal, tr, tr_n
from app.theme.devices import swatch_size
from app.widgets.layouts import vbox
from app.widgets.lists.rows import Column
from app.widgets.numbers import grouped, microseconds, milliseconds
from app.widgets.plots.bands import Bands, Piece, component_look
from app.widgets.plots.legend import ChartLegend, LegendEntry
from app.widgets.plots.paper import Paper
from engine.protocol import SplitRecord, StepTimes

REST = tr("host and wait")

Numbered = tuple[int, SplitRecord]


def _number(
    title: str, value: Callable[[SplitRecord], int], text: Callable[[int], str]
) -> Column[Numbered]:
    return Column(title, lambda n: text(value(n[1])), lambda n: value(n[1]), right=True)


SPLITS = (
    Column[Numbered]("#", lambda n: str(n[0]), lambda n: n[0], right=True),
    Column[Numbered](tr("Device"), lambda n: n[1].device, mono=True, whole=True),
    _number(tr("Nodes"), lambda s: s.n_nodes, grouped),
    _number("ms", lambda s: s.compute_ns, milliseconds),
    _number(tr("KiB in"), lambda s: s.copied, lambda size: decimal(f"{size / 1024:.1f}")),
    _number(tr("µs in"), lambda s: s.copy_ns, microseconds),
    Column[Numbered](tr("From – to"), lambda n: nodes_of(n[1]), quiet=True),
)


class SplitBand(Bands):
    """Shows `StepTimes`: what devices compute is solid, copies are hatched, the rest is the host's
    and waiting.
    """

    pointed = Signal(int)

    def __init__(self) -> None:
        super().__init__(tr("Splits of a token"))
        self._times: StepTimes | None = None
        self.selected: int | None = None

    def show_times(self, times: StepTimes | None) -> None:
        self._times = times
        self.changed()

    def show_selected(self, number: int | None) -> None:
        """Mark the split that is selected."""
        self.selected = number
        if number is not None:
            self._at = number
        self.changed()

    def walked(self) -> None:
        self.pointed.emit(self.at)

    def whole(self) -> float:
        return self._times.step_ns if self._times is not None else 1

    def empty(self) -> str:
        return tr("no times yet; send a message")

    def head(self) -> tuple[str, str, str] | None:
        if self._times is None:
            return None
        return tr("One token"), milliseconds(self._times.step_ns), "ms"

    def pieces(self) -> list[Piece]:
        if self._times is None:
            return []
        made = []
        for n, split in enumerate(self._times.splits):
            copies = component_look(split.device, "staging")
            made.append(Piece(split.copy_ns, copies, (), n, 0.0))
            texts = f"{n}  {milliseconds(split.compute_ns)}", str(n)
            computes = component_look(split.device, "weights")
            made.append(Piece(split.compute_ns, computes, texts, n))
        rest = rest_ns(self._times)
        text = milliseconds(rest)
        return [*made, Piece(rest, None, (f"{REST} {text}", text), None, 0.0)]

    def framed(self, at: int) -> bool:
        return at == self.selected

    def words(self, at: int) -> str:
        return describe_split(at, self._times.splits[at]) if self._times is not None else ""

    def in_words(self) -> str:
        if self._times is None:
            return tr("No times yet")
        text = tr(
            "{step_ns} ms in {stops} splits",
            step_ns=milliseconds(self._times.step_ns),
            stops=self.stops(),
        )
        text += f", {REST} {milliseconds(rest_ns(self._times))} ms"
        return f"{text}. {self.words(self.at)}" if self.stops() else text


class SplitsChart(QWidget):
    """The band, and below it the devices that its colours stand for."""

    pointed = Signal(int)  # the place of a split
    device_picked = Signal(object)  # str

    def __init__(self) -> None:
        super().__init__()
        self.band = SplitBand()
        self.legend = ChartLegend(tr("Devices of the splits"), _draw_device, swatch_size)
        self.band.pointed.connect(self.pointed)
        self.legend.picked.connect(self.device_picked)
        vbox(self.band, self.legend, on=self, spacing=2)

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


def _draw_device(paper: Paper, area: QRectF, device: object) -> None:
    paper.swatch(area.left(), area.center().y(), str(device))


def rest_ns(times: StepTimes) -> int:
    """Nanoseconds of a step in which no device computes or copies: launches, sampling, waiting."""
    return max(0, times.step_ns - sum(s.copy_ns + s.compute_ns for s in times.splits))


def describe_split(number: int, split: SplitRecord) -> str:
    """A split in words."""
    text = tr(
        "Split {number} on {device}: {n_nodes} nodes, {nodes_of}; computes for {compute_ns} ms",
        number=number,
        device=split.device,
        n_nodes=grouped(split.n_nodes),
        nodes_of=nodes_of(split),
        compute_ns=milliseconds(split.compute_ns),
    )
    if split.copies:
        text += tr_n(
            " after {n} copy of {copied:.1f} KiB in {copy_us} µs",
            " after {n} copies of {copied:.1f} KiB in {copy_us} µs",
            split.copies,
            copied=split.copied / 1024,
            copy_us=microseconds(split.copy_ns),
        )
    return text


def nodes_of(split: SplitRecord) -> str:
    """The first and the last of its nodes."""
    return f"{split.first} – {split.last}" if split.n_nodes > 1 else split.first
