"""A recorded answer over time: the host, and each device down to its launches."""

import numpy as np
from PySide6.QtCore import QEvent, Signal
from PySide6.QtWidgets import QWidget

from app.language import tr
from app.state.profile.recorded import RecordedAnswer, layer_of_node
from app.theme.devices import device_look
from app.theme.theme import tokens
from app.theme.tokens import HOST, mix
from app.widgets.basics import LOOKS, label
from app.widgets.layouts import vbox
from app.widgets.numbers import microseconds
from app.widgets.plots.time_lanes import SpanLane, TimeLanes
from engine.protocol import Phase

BETWEEN = tr("between steps: sampling, text")
SHADES = (1.0, 0.78, 0.58)  # of the device's colour, for neighbouring operations


def _time(ns: float) -> str:
    """A moment since the first recorded step, as short as possible."""
    if abs(ns) >= 1e9:
        return tr("{ns:.6g} s", ns=ns / 1000000000.0)
    return (
        tr("{ns:.6g} ms", ns=ns / 1000000.0)
        if abs(ns) >= 1e6
        else tr("{ns:.4g} µs", ns=ns / 1000.0)
    )


class TimeLine(QWidget):
    """Lanes of an answer; at first the step of median length of a phase fills it."""

    launch_pointed = Signal(int)  # a launch of the answer, by its place in its columns

    def __init__(self) -> None:
        super().__init__()
        self.lanes = TimeLanes(tr("Recorded answer over time"), _time)
        self._answer: RecordedAnswer | None = None
        self._phase: Phase = "decode"
        self._launches: list[np.ndarray[tuple[int], np.dtype[np.intp]]] = []  # of each device
        self.caption = label(tone="quiet", size="small", wrap=True)
        vbox((self.lanes, 1), self.caption, on=self, spacing=6)
        self.lanes.pointed.connect(self._pointed)

    def show_answer(self, answer: RecordedAnswer | None, phase: Phase) -> None:
        """Show an answer, and of it the median step of a phase."""
        same = answer is self._answer
        if not same:
            self._answer = answer
            self._draw()
            self.caption.setText("")
        if answer is not None and (not same or phase != self._phase):
            self.show_step(phase)
        self._phase = phase

    def show_step(self, phase: Phase) -> None:
        """Make the step of median length fill the time line."""
        assert self._answer is not None
        steps = [step for step in self._answer.record.steps if step.phase == phase]
        if steps:
            step = sorted(steps, key=lambda one: one.step_ns)[len(steps) // 2]
            self.lanes.show_time(step.start, step.start + step.step_ns)

    def show_launch(self, launch: int) -> None:
        """Put the cursor on a launch."""
        for lane, launches in enumerate(self._launches, 1):
            found = np.flatnonzero(launches == launch)
            if len(found):
                self.lanes.set_cursor(lane, int(found[0]))
                self.caption.setText(self.lanes.description())

    def show_nothing(self) -> None:
        """No launch is selected."""
        self.lanes.unmark()
        self.caption.setText("")

    def launch_at(self) -> int | None:
        """The launch under the cursor; None on the host's lane."""
        if self.lanes.at is None or not self.lanes.at[0]:
            return None
        lane, span = self.lanes.at
        return int(self._launches[lane - 1][span])

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in LOOKS and self._answer is not None:
            at, seen, marked = self.lanes.at, self.lanes.seen, self.lanes.marked
            self._draw()
            if at is not None and marked:
                self.lanes.set_cursor(*at)
            self.lanes.show_time(seen.left(), seen.right())

    def _draw(self) -> None:
        answer = self._answer
        self._launches = [] if answer is None else [answer.on_device(d) for d in answer.devices]
        lanes = [] if answer is None else [_host(answer)]
        for device, launches in zip(answer.devices if answer else (), self._launches, strict=True):
            assert answer is not None
            lanes.append(_device(answer, device, launches))
        self.lanes.show_lanes(lanes)
        self.lanes.setAccessibleName(
            tr("Recorded answer over time")
            if answer is None
            else tr("Recorded answer of {model}", model=answer.model)
        )

    def _pointed(self, lane: int, span: int) -> None:
        self.caption.setText(self.lanes.description())
        if lane:
            self.launch_pointed.emit(int(self._launches[lane - 1][span]))


def _device(
    answer: RecordedAnswer, device: str, launches: np.ndarray[tuple[int], np.dtype[np.intp]]
) -> SpanLane:
    look = device_look(device)
    ops = list(dict.fromkeys(kind.op for kind in answer.record.kinds))
    shade = {op: at % len(SHADES) for at, op in enumerate(ops)}
    of_kind = np.array([shade[kind.op] for kind in answer.record.kinds], np.int64)

    def describe(span: int) -> str:
        launch = int(launches[span])
        kind = answer.kind(launch)
        ns = int(answer.ends[launch] - answer.starts[launch])
        layer = layer_of_node(kind.name)
        where = "" if layer is None else tr(", layer {layer}", layer=layer)
        size = int(answer.sizes[launch])
        rate = tr(", {size:.1f} GB/s", size=size / ns) if ns and size else ""
        return tr(
            "{name}: {op} as {kernel}{where}, {ns} µs{rate}",
            name=kind.name,
            op=kind.op,
            kernel=kind.kernel,
            where=where,
            ns=microseconds(ns),
            rate=rate,
        )

    return SpanLane(
        f"{look.letter} {device}",
        answer.starts[launches].astype(np.float64),
        answer.ends[launches].astype(np.float64),
        of_kind[answer.kinds[launches]],
        [mix(look.colour, tokens().panel, share) for share in SHADES],
        lambda span: answer.kind(int(launches[span])).name,
        describe,
    )


def _host(answer: RecordedAnswer) -> SpanLane:
    """Return the host's activities in and between steps."""
    names: list[str] = []
    edges: list[tuple[int, int]] = []
    end = None
    for step in answer.record.steps:
        if end is not None and step.start > end and answer.record.every == 1:
            names.append(BETWEEN)
            edges.append((end, step.start))
        for span in step.host:
            names.append(span.name)
            edges.append((step.start + span.start, step.start + span.end))
        end = step.start + step.step_ns
    starts, ends = (np.array([edge[at] for edge in edges], np.float64) for at in (0, 1))
    kinds = np.array([2 if name == BETWEEN else at % 2 for at, name in enumerate(names)], np.int64)

    def describe(span: int) -> str:
        return tr(
            "host: {names}, {ends} µs",
            names=names[span],
            ends=microseconds(int(ends[span] - starts[span])),
        )

    tones = [*(mix(HOST, tokens().panel, share) for share in (0.9, 0.7)), tokens().raised]
    return SpanLane(tr("H steps"), starts, ends, kinds, tones, names.__getitem__, describe)
