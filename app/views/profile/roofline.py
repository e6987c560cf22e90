"""Each kernel's speed relative to the limits of its device."""

import numpy as np
from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QWidget

from app.language import tr
from app.state.profile.profile import ProfileState
from app.state.profile.recorded import RecordedAnswer, Total
from app.theme.devices import device_look
from app.widgets.basics import Button, label
from app.widgets.layouts import vbox
from app.widgets.numbers import grouped
from app.widgets.plots.dots import Dots, PlotDot
from app.widgets.plots.lines import PlotAxis, PlotLine
from engine.protocol import DeviceRoof, Phase

LEFT, RIGHT = 0.05, 2000.0  # operations per byte that roofs are drawn over
AXES = tr("GFLOP/s over operations per byte.")
LEAST_SHARE = 0.0005  # of the phase's time; what takes less is no dot


class Roofline(QWidget):
    """A dot a kernel: operations per byte and per second, below the roof of its device."""

    kernel_pointed = Signal(str)  # the name of its total: "device kernel"

    def __init__(self, state: ProfileState) -> None:
        super().__init__()
        self._state = state
        self.dots = Dots(
            tr("Roofline"),
            PlotAxis(tr("operations per byte"), lambda x: f"{x:g}", log=True),
            PlotAxis("GFLOP/s", lambda y: f"{y:g}", log=True),
        )
        self._totals: list[Total] = []
        self._caption = label(tone="quiet", wrap=True)
        self.measure = Button(tr("Measure the devices"), state.measure_roofs)
        vbox(self._caption, (self.measure, Qt.AlignmentFlag.AlignLeft), (self.dots, 1), on=self)
        self.dots.dot_pointed.connect(lambda at: self.kernel_pointed.emit(self._totals[at].name))

    def show_answer(self, answer: RecordedAnswer | None, phase: Phase) -> None:
        """The kernels of a phase, under the roofs that are known."""
        totals = answer.totals("kernel", phase) if answer is not None else []
        whole = sum(total.ns for total in totals)
        self._totals = [
            total
            for total in totals
            if total.bytes and total.flops and total.ns >= LEAST_SHARE * whole
        ]
        roofs = [roof for roof in self._state.roofs.values() if roof.bytes_per_s]
        self.dots.show_dots(
            [self._dot(total, whole) for total in self._totals], [_line(roof) for roof in roofs]
        )
        self._say(answer, roofs)

    def show_kernel(self, name: str) -> None:
        """Put the cursor on the dot of a total, if it has one."""
        found = next((at for at, total in enumerate(self._totals) if total.name == name), None)
        if found is not None:
            self.dots.set_dot(found)

    def _dot(self, total: Total, whole: int) -> PlotDot:
        device, _, kernel = total.name.partition(" ")
        look, rate = device_look(device), total.flops_per_s
        text = tr(
            "{kernel} on {device}: {rate:.1f} GFLOP/s, {bytes_per_s:.1f} GB/s, {ns:.1f} %"
            " of the time",
            kernel=kernel,
            device=device,
            rate=rate / 1000000000.0,
            bytes_per_s=total.bytes_per_s / 1000000000.0,
            ns=100 * total.ns / max(whole, 1),
        )
        roof = self._state.roofs.get(device)
        if roof is not None and roof.bytes_per_s:
            most = min(roof.bytes_per_s * total.intensity, roof.flops_per_s)
            text += tr(", {rate:.0f} % of the device's limit", rate=100 * rate / most)
        return PlotDot(total.intensity, rate / 1e9, text, look.colour, look.letter)

    def _say(self, answer: RecordedAnswer | None, roofs: list[DeviceRoof]) -> None:
        self.measure.setVisible(not self._state.roofs)
        self.measure.setEnabled(not self._state.measuring)
        if self._state.measuring:
            self._caption.setText(tr("Measuring device limits …"))
        elif roofs:
            self._caption.setText(
                f"{AXES} "
                + " · ".join(
                    tr(
                        "{device} reads {bytes_per_s:.1f} GB/s and computes {flops_per_s} GFLOP/s",
                        device=roof.device,
                        bytes_per_s=roof.bytes_per_s / 1000000000.0,
                        flops_per_s=grouped(round(roof.flops_per_s / 1000000000.0)),
                    )
                    for roof in roofs
                )
            )
        else:
            self._caption.setText(tr("{axes} Device limits are not measured yet.", axes=AXES))


def _line(roof: DeviceRoof) -> PlotLine:
    """Return the roofline: limited by memory on the left, by arithmetic on the right."""
    ridge = roof.flops_per_s / roof.bytes_per_s
    x = np.array(sorted([LEFT, ridge, max(RIGHT, 2 * ridge)]))
    y = np.minimum(x * roof.bytes_per_s, roof.flops_per_s) / 1e9
    return PlotLine(
        tr("roof of {device}", device=roof.device), x, y, device_look(roof.device).colour
    )
