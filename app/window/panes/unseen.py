"""A placeholder for views that need a local model."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from app.state.workbench import Workbench
from app.theme.tokens import GRID, PADDING
from app.views.layers.layers import LayersView
from app.widgets.basics import label

# The ability without which a page has nothing to show, and what is missing then.
NEEDS = {
    "token": ("examine", "Servers do not report how a token was computed."),
    "memory": ("memory", "Servers do not report what their memory holds."),
    "layers": ("splits", "The server decides which device runs a layer, and does not report it."),
    "graph": ("splits", "Servers do not report the compute graph or its splits."),
    "tensors": ("file", "Servers do not give access to tensors."),
    "profile": ("splits", "Servers do not report the time of each operation."),
}
SEEN = (
    "Available are the answers, their times and, if the server reports them, the"
    " probabilities of their words (Ctrl+P)."
)


class SeenPage(QStackedWidget):
    """The view of a page, or why there is nothing to be seen in it while a server answers.

    Its parent is known from the start: each change of it dresses all that lies in a page again.
    """

    def __init__(self, bench: Workbench, id: str, view: QWidget, parent: QWidget) -> None:
        super().__init__(parent)
        self._bench, self.view = bench, view
        self._need, self._why = NEEDS.get(id, ("", ""))
        self.says = label(tone="quiet", wrap=True)
        self.says.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.says.setAccessibleName("Not available")
        missing = QWidget()
        column = QVBoxLayout(missing)
        column.setContentsMargins(PADDING, PADDING, PADDING, PADDING)
        column.setSpacing(GRID)
        column.setAlignment(Qt.AlignmentFlag.AlignTop)
        column.addWidget(self.says)
        self._missing = missing
        self.addWidget(view)
        self.addWidget(missing)
        self.setFocusProxy(view)
        bench.session.changed.connect(self.refresh)
        bench.layers.changed.connect(self.refresh)
        self.refresh()

    @property
    def is_missing(self) -> bool:
        """True if the open model is remote and the view needs a local one. The layers of a file on
        this disk may be placed meanwhile.
        """
        bench = self._bench
        if bench.session.connection is None or not self._need:
            return False
        places = isinstance(self.view, LayersView) and bench.layers.file is not None
        return not getattr(bench.client.abilities, self._need) and not places

    def refresh(self) -> None:
        """Show what there is now."""
        gone = self.is_missing
        if gone:
            session = self._bench.session
            where = session.connection.name if session.connection is not None else ""
            self.says.setText(
                f"{session.model_title.removesuffix(f' on {where}')} runs on the server {where}."
                f" {self._why}\n\n{SEEN}"
            )
        shown = self._missing if gone else self.view
        if self.currentWidget() is not shown:
            self.setCurrentWidget(shown)
            self.setFocusProxy(self.says if gone else self.view)
