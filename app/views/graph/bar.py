"""The choices above the graph: which step, what of it, in which colours; find, export."""

from collections.abc import Iterable, Sequence

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QComboBox, QHBoxLayout, QLineEdit, QMenu, QWidget

from app.language import tr
from app.state.graph.graph import Phase
from app.state.graph.overlay import OVERLAYS, Overlay
from app.state.graph.scene import Shows
from app.theme import fonts
from app.theme.tokens import GRID
from app.widgets.basics import IconButton, label

STEPS: dict[tuple[Phase, ...], str] = {
    ("decode",): tr("One token"),
    ("prefill",): tr("A prompt"),
    ("decode", "prefill"): tr("Both"),
}
SHOWS: dict[Shows, str] = {"operations": tr("Operations"), "launches": tr("Launches")}
WIDE = 760  # from which on all stands in one line
SAVED = {"svg": tr("Picture (SVG)"), "dot": tr("Graphviz (DOT)"), "json": tr("Everything (JSON)")}


class GraphBar(QWidget):
    """Says what was chosen; the view decides what comes of it."""

    steps_chosen = Signal(tuple)
    shows_chosen = Signal(str)
    overlay_chosen = Signal(str)
    collapse_chosen = Signal(bool)
    query_changed = Signal(str)
    next_wanted = Signal(int)
    save_wanted = Signal(str)
    table_wanted = Signal()
    fit_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.steps = _choice(tr("Step"), STEPS.values())
        self.shows = _choice(tr("Shown phase"), SHOWS.values())
        self.overlay = _choice(tr("Colours"), OVERLAYS.values())
        self.steps.currentIndexChanged.connect(lambda i: self.steps_chosen.emit(list(STEPS)[i]))
        self.shows.currentIndexChanged.connect(lambda i: self.shows_chosen.emit(list(SHOWS)[i]))
        self.overlay.currentIndexChanged.connect(
            lambda i: self.overlay_chosen.emit(list(OVERLAYS)[i])
        )
        self.query = QLineEdit()
        self.query.setPlaceholderText(tr("Find (Ctrl+F)"))
        self.query.setAccessibleName(tr("Find nodes"))
        self.query.setClearButtonEnabled(True)
        self.query.textChanged.connect(self.query_changed)
        self.query.installEventFilter(self)
        self.count = label(tone="quiet", size="small")
        self.collapse = IconButton("menu", tr("Collapse identical blocks"))
        self.collapse.setCheckable(True)
        self.collapse.setChecked(True)
        self.collapse.toggled.connect(self.collapse_chosen)
        self.fit = IconButton("eye", tr("Show everything (0)"), self.fit_wanted.emit)
        self.save = IconButton("download", tr("Save the graph"), self._offer)
        self.table = IconButton("table", tr("Show as a table (Ctrl+T)"), self.table_wanted.emit)
        self._row = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(GRID)
        choices, finding = QHBoxLayout(), QHBoxLayout()
        for part in (choices, finding):
            part.setSpacing(GRID)
            self._row.addLayout(part, 1)
        for widget in (self.steps, self.shows, self.overlay):
            choices.addWidget(widget, 1)
        finding.addWidget(self.query, 1)
        finding.addWidget(self.count)
        for button in (self.collapse, self.fit, self.save, self.table):
            finding.addWidget(button)

    def go_to_query(self) -> None:
        """Give the keyboard to the field."""
        self.query.setFocus()
        self.query.selectAll()

    def choose_overlay(self, overlay: Overlay) -> None:
        """As if it had been chosen in its list."""
        self.overlay.setCurrentIndex(list(OVERLAYS).index(overlay))

    def show_chosen(self, phases: Sequence[Phase], shows: Shows, overlay: Overlay) -> None:
        """As they are now, without a signal."""
        for box, at in (
            (self.steps, list(STEPS).index(tuple(phases))),
            (self.shows, list(SHOWS).index(shows)),
            (self.overlay, list(OVERLAYS).index(overlay)),
        ):
            if box.currentIndex() != at:
                box.blockSignals(True)
                box.setCurrentIndex(at)
                box.blockSignals(False)

    def eventFilter(self, watched: object, event: QEvent) -> bool:  # noqa: N802
        """Enter goes to the next that was found, with Shift to the one before."""
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            back = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self.next_wanted.emit(-1 if back else 1)
                return True
            if event.key() == Qt.Key.Key_Escape and self.query.text():
                self.query.clear()
                return True
        return False

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        wide = self.width() >= fonts.px(WIDE)
        direction = QBoxLayout.Direction
        wanted = direction.LeftToRight if wide else direction.TopToBottom
        if self._row.direction() != wanted:
            self._row.setDirection(wanted)
            self.updateGeometry()

    def _offer(self) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for kind, text in SAVED.items():
            menu.addAction(text).setData(kind)
        menu.triggered.connect(lambda action: self.save_wanted.emit(action.data()))
        menu.popup(self.save.mapToGlobal(self.save.rect().bottomLeft()))


def _choice(name: str, texts: Iterable[str]) -> QComboBox:
    box = QComboBox()
    box.setAccessibleName(name)
    box.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
    box.setMinimumContentsLength(6)
    for text in texts:
        box.addItem(text)
    return box
