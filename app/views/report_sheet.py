"""A report on this machine's devices: what it is to hold, how far it is, where it is saved."""

from datetime import datetime
from pathlib import Path

from PySide6.QtCore import QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QCheckBox, QComboBox, QProgressBar, QWidget

from app.language import tr
from app.report.contents import ReportWanted
from app.report.document import summary
from app.state.workbench import Workbench
from app.theme.tokens import GRID, PADDING
from app.widgets.basics import Button, IconButton, label, scrolled, set_tone
from app.widgets.file_dialogs import save_file
from app.widgets.layouts import STRETCH, hbox, vbox
from engine.protocol import Devices, ListDevices

ABOUT = tr(
    "Tries every OpenCL driver, checks what the devices compute and measures how fast they are with"
    " three models of random weights, in one file to attach to an issue. Folders and names of users"
    " are left out of it. It takes some minutes; measure while nothing else runs."
)
STEPS = 1000  # of the bar


class ReportView(QWidget):
    """Shows `bench.report`."""

    done = Signal()

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self.setAccessibleName(tr("Device report"))
        self._bench, self._state = bench, bench.report
        self.device = QComboBox()
        self.device.setAccessibleName(tr("Device to report on"))
        self.device.setMinimumContentsLength(12)
        self.device.setSizeAdjustPolicy(
            QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        )
        self.full = QCheckBox(tr("Complete self-test: minutes more"))
        self.tune = QCheckBox(tr("Tune the kernels first"))
        for box in (self.full, self.tune):
            box.setAccessibleName(box.text())
        self.start = Button(tr("Start"), self._start, "primary")
        self.cancel = Button(tr("Cancel"), self._state.cancel)
        self.save = Button(tr("Save…"), self._save)
        self.open = Button(tr("Open the file"), self._open)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setRange(0, STEPS)
        self.bar.setAccessibleName(tr("Progress of the report"))
        self.doing = label(tone="quiet", wrap=True)
        self.found = label(wrap=True)
        self.caption = label(wrap=True)
        self._lay_out()
        self.setFocusProxy(self.start)
        bench.client.on(Devices, self._show_devices)
        self._state.changed.connect(self.show_state)
        self._show_devices(Devices(0, []))
        self.show_state()

    def refresh(self) -> None:
        """Ask which devices there are now."""
        self._bench.client.send(ListDevices(0))

    def show_state(self) -> None:
        """Show the current state of the report."""
        state, report = self._state, self._state.report
        for chosen in (self.device, self.full, self.tune):
            chosen.setEnabled(not state.is_busy)
        for shown in (self.bar, self.cancel, self.doing):
            shown.setVisible(state.is_busy)
        self.start.setVisible(not state.is_busy)
        self.start.set_text(tr("Start again") if report is not None else tr("Start"))
        self.save.setVisible(report is not None)
        self.open.setVisible(state.saved is not None)
        self.bar.setValue(round(STEPS * state.done))
        self.doing.setText(state.doing)
        self.found.setText("\n".join(summary(report)) if report is not None else "")
        self.found.setVisible(report is not None)
        saved = tr("Saved as {name}.", name=state.saved.name) if state.saved is not None else ""
        self.caption.setText(state.problem or saved)
        self.caption.setVisible(bool(self.caption.text()))
        set_tone(self.caption, "bad" if state.problem else "good")

    def _lay_out(self) -> None:
        head = hbox(
            (label(tr("Device report"), size="strong"), 1),
            IconButton("close", tr("Close the report"), self.done.emit, 16),
        )
        inside = QWidget()
        vbox(
            label(ABOUT, "quiet", wrap=True),
            self.device,
            self.full,
            self.tune,
            self.doing,
            self.bar,
            self.found,
            self.caption,
            STRETCH,
            on=inside,
        )
        buttons = hbox(STRETCH, self.cancel, self.open, self.start, self.save, spacing=GRID)
        vbox(head, (scrolled(inside), 1), buttons, on=self, margins=PADDING)

    def _show_devices(self, devices: Devices) -> None:
        chosen = self.device.currentData()
        self.device.clear()
        self.device.addItem(tr("Best driver for each processor"), "")
        for row in devices.devices:
            self.device.addItem(f"{row.id}   {row.name}", row.id)
        self.device.setCurrentIndex(max(self.device.findData(chosen), 0))

    def _start(self) -> None:
        device = self.device.currentData()
        names = (device,) if device else ()
        self._state.start(ReportWanted(names, self.full.isChecked(), self.tune.isChecked()))
        self.cancel.setFocus()

    def _save(self) -> None:
        name = f"cutaway-report-{datetime.now():%Y%m%d-%H%M%S}.md"
        path, _ = save_file(self, tr("Save the report"), name, tr("Markdown (*.md)"))
        if path:
            self._state.save(Path(path).with_suffix(".md"))

    def _open(self) -> None:
        if self._state.saved is not None:
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._state.saved)))
