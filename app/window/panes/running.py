"""Indicators of background activity: a recording, pinned probes, the API server."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.state.workbench import Workbench
from app.theme.tokens import GRID
from app.widgets.basics import Button
from app.widgets.tips import set_tip

LONGEST = 24  # characters shown of a pattern


class RunningLine(QWidget):
    """A word for each thing that runs; a click leads to its view. Empty where nothing does."""

    probes_wanted = Signal()
    serving_wanted = Signal()

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._profile, self._probes, self._serving = bench.profile, bench.probes, bench.serving
        self.serving = Button("serving ●", self.serving_wanted.emit, "link", name="Serving")
        set_tip(self.serving, "API server: show clients and requests")
        self.recording = Button(
            "recording ●", lambda: bench.selection.show_in("profile"), "link", name="Recording"
        )
        set_tip(self.recording, "Recording this answer, or the next one (Ctrl+6)")
        self.probing = Button("", self.probes_wanted.emit, "link")
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(GRID)
        row.addWidget(self.serving)
        row.addWidget(self.probing)
        row.addWidget(self.recording)
        self._profile.changed.connect(self.refresh)
        self._probes.changed.connect(self.refresh)
        self._serving.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        probes = self._probes
        pattern = "".join(c if c.isprintable() else " " for c in probes.pattern)
        short = pattern if len(pattern) <= LONGEST else f"{pattern[:LONGEST]}…"
        self.probing.setText(f"probe {short}".replace("&", "&&"))
        self.probing.setAccessibleName(f"Pinned probe {pattern}")
        set_tip(self.probing, f"Results named {pattern} are collected while its view is open")
        self.probing.setVisible(probes.pinned)
        self.recording.setVisible(self._profile.recording)
        self.serving.setVisible(self._serving.is_on)
