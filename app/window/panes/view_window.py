"""A view of the inspector in a window of its own."""

import base64

from msgspec import structs
from PySide6.QtCore import QByteArray, QEvent, Signal
from PySide6.QtGui import QCloseEvent, Qt
from PySide6.QtWidgets import QWidget

from app.state.workbench import Workbench
from app.views.selection import SelectionStrip
from app.widgets.basics import divider, surface
from app.widgets.focus import Refuge, focus_first, move_focus, take_refuge
from app.widgets.layouts import vbox

SIZE = 900, 700


class ViewWindow(QWidget, Refuge):
    """Holds the view of a page until it is closed; the commands of the window work here too.

    Theme, size of text and selection are the program's. It closes with the window it came from,
    and opens where it was closed.
    """

    closed = Signal(str)  # id of the page; the view is still here

    def __init__(self, bench: Workbench, id: str, title: str, view: QWidget, of: QWidget) -> None:
        super().__init__(of, Qt.WindowType.Window)
        self.id, self.view = id, view
        self._title, self._bench = title, bench
        surface(self, "panel")
        self.addActions(of.actions())
        self.setMinimumSize(360, 320)
        self.strip = SelectionStrip(bench)
        vbox(self.strip, divider(), (view, 1), on=self, spacing=0)
        view.show()
        self.resize(*SIZE)
        kept = bench.preferences.value.window.windows.get(id, "")
        if kept:
            self.restoreGeometry(QByteArray(base64.b64decode(kept)))
        bench.session.changed.connect(self._show_title)
        self._show_title()

    def come_forward(self) -> None:
        """Show it in front, with the keyboard in the view."""
        self.show()
        self.raise_()
        self.activateWindow()
        focus_first(self.view)

    def focusNextPrevChild(self, forward: bool) -> bool:  # noqa: N802
        return move_focus(self, forward)

    def refuge(self, gone: QWidget | None) -> QWidget:
        return self

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() == QEvent.Type.ActivationChange and self.isActiveWindow():
            take_refuge(self, self.focusWidget())

    def closeEvent(self, event: QCloseEvent) -> None:  # noqa: N802
        self._keep()
        self.closed.emit(self.id)
        super().closeEvent(event)

    def _keep(self) -> None:
        """Where it is, and how large."""
        kept = self._bench.preferences.value.window
        geometry = base64.b64encode(self.saveGeometry().data()).decode()
        windows = {**kept.windows, self.id: geometry}
        self._bench.preferences.update(window=structs.replace(kept, windows=windows))

    def _show_title(self) -> None:
        name = self._bench.session.model_title
        parts = (self._title, name, "Cutaway")
        self.setWindowTitle(" – ".join(part for part in parts if part).replace("[*]", "[*][*]"))
