"""The log as a drawer at the bottom: closed it is one line."""

import logging

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QSplitter, QWidget

from app.language import tr, tr_n
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.tokens import GRID
from app.views.log import LogView
from app.widgets.basics import (
    TEXT_SIZE,
    Button,
    IconButton,
    divider,
    label,
    literal,
    set_tone,
    surface,
)
from app.widgets.controls.elided import ElidedLabel
from app.widgets.focus import focus_first, has_focus
from app.widgets.layouts import hbox, vbox
from app.widgets.tips import set_tip

LONGEST = 24  # characters shown of a pattern


class RunningLine(QWidget):
    """A word for each thing that runs; a click leads to its view. Empty where nothing does."""

    probes_wanted = Signal()
    serving_wanted = Signal()

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._profile, self._probes, self._serving = bench.profile, bench.probes, bench.serving
        self.serving = Button(tr("serving ●"), self.serving_wanted.emit, "link", name=tr("Serving"))
        set_tip(self.serving, tr("API server: show clients and requests"))
        self.recording = Button(
            tr("recording ●"),
            lambda: bench.selection.show_in("profile"),
            "link",
            name=tr("Recording"),
        )
        set_tip(self.recording, tr("Recording this answer, or the next one (Ctrl+6)"))
        self.probing = Button("", self.probes_wanted.emit, "link")
        hbox(self.serving, self.probing, self.recording, on=self)
        self._profile.changed.connect(self.refresh)
        self._probes.changed.connect(self.refresh)
        self._serving.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        probes = self._probes
        pattern = "".join(c if c.isprintable() else " " for c in probes.pattern)
        short = pattern if len(pattern) <= LONGEST else f"{pattern[:LONGEST]}…"
        self.probing.setText(literal(tr("probe {short}", short=short)))
        self.probing.setAccessibleName(tr("Pinned probe {pattern}", pattern=pattern))
        set_tip(
            self.probing,
            tr("Results named {pattern} are collected while its view is open", pattern=pattern),
        )
        self.probing.setVisible(probes.pinned)
        self.recording.setVisible(self._profile.recording)
        self.serving.setVisible(self._serving.is_on)


class ClosedLine(QWidget):
    """The line under the window: a click beside its buttons is `clicked`."""

    clicked = Signal()

    def __init__(self) -> None:
        super().__init__()
        surface(self, "panel")
        self.setCursor(Qt.CursorShape.PointingHandCursor)

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        event.accept()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        left = event.button() == Qt.MouseButton.LeftButton
        if left and self.rect().contains(event.position().toPoint()):
            self.clicked.emit()


LINE = 28  # pixels of the closed drawer, at normal text
SHARE = 3  # of the height that an open drawer leaves, to one that it takes


class LogDrawer(QWidget):
    """`above` fills the window; below it a line says how many errors the log has, and its newest
    line, and what runs beside the talk. Opened, the log takes a quarter of the height, or what was
    dragged.
    """

    opened = Signal(bool)

    def __init__(self, bench: Workbench, above: QWidget) -> None:
        super().__init__()
        self._log, self._above = bench.log, above
        log = bench.log
        self.running = RunningLine(bench)
        self.log = LogView(log)
        surface(self.log, "panel")
        self.log.hide()
        self.split = QSplitter(Qt.Orientation.Vertical)
        self.split.setObjectName("drawer")
        self.split.setHandleWidth(1)
        self.split.setChildrenCollapsible(False)
        self.split.addWidget(above)
        self.split.addWidget(self.log)
        self.split.setStretchFactor(0, 1)
        self.line = ClosedLine()
        self.line.clicked.connect(self.toggle)
        self.handle = IconButton("chevron-right", tr("Open the log"), self.toggle, 14)
        self.errors = label(size="small")
        self.latest = ElidedLabel(size="small")
        set_tone(self.latest, "quiet")
        hbox(
            self.handle,
            self.errors,
            (self.latest, 1),
            self.running,
            on=self.line,
            margins=(GRID // 2, 0, GRID, 0),
        )
        vbox((self.split, 1), divider(), self.line, on=self, spacing=0)
        log.appended.connect(self.refresh)
        log.dropped.connect(self.refresh)
        self.refresh()

    @property
    def is_open(self) -> bool:
        return not self.log.isHidden()

    def toggle(self) -> None:
        """Open it with the keyboard in the log, or close it."""
        self.set_open(not self.is_open)
        if self.is_open:
            focus_first(self.log)

    def set_open(self, wanted: bool) -> None:
        """Open or close it. Where the log had the keyboard, the handle has it then."""
        if wanted == self.is_open:
            return
        had_keyboard = has_focus(self.log)
        self.log.setVisible(wanted)
        if wanted and not any(self.split.sizes()[1:]):
            self.split.setSizes([SHARE, 1])
        elif had_keyboard:
            self.handle.setFocus()
        self.refresh()
        self.opened.emit(wanted)

    def show_line(self, text: str) -> None:
        """Open it at the line that says `text`, or at the newest error."""
        self.set_open(True)
        self.log.show_line(text)

    def refresh(self) -> None:
        """Say how many errors there are, and the newest line."""
        lines = self._log.lines
        count = sum(line.level >= logging.ERROR for line in lines)
        self.errors.setText(tr_n("Log: {n} error", "Log: {n} errors", count))
        set_tone(self.errors, "bad" if count else "quiet")
        newest = lines[-1] if lines else None
        self.latest.setText(f"·  {' '.join(newest.text.split())}" if newest is not None else "")
        picture, name = (
            ("chevron-down", tr("Close")) if self.is_open else ("chevron-right", tr("Open"))
        )
        self.handle.set_picture(picture, tr("{name} the log (Ctrl+Shift+J)", name=name))
        self._fit()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in TEXT_SIZE:
            self._fit()

    def _fit(self) -> None:
        self.line.setFixedHeight(fonts.px(LINE))
