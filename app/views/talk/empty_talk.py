"""A chat before its first message: which model listens, and the keys worth knowing."""

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.tokens import GRID
from app.widgets.basics import label
from app.widgets.numbers import grouped

KEYS = (
    ("Esc", "stops an answer"),
    ("↑", "edits the last question"),
    ("Ctrl+P", "shows token probabilities"),
)


class EmptyTalk(QWidget):
    """Lies over `ground` while nothing is said, as large as it, and takes no mouse."""

    def __init__(self, bench: Workbench, ground: QWidget) -> None:
        super().__init__(ground)
        self._bench = bench
        ground.installEventFilter(self)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._name = _middle(label(wrap=True))
        self._name.setFont(fonts.title())
        self._facts = _middle(label("", "quiet", wrap=True))
        keys = "     ".join(f"{key}  {what}" for key, what in KEYS)
        self._keys = _middle(label(keys, "quiet", "small", wrap=True))
        column = QVBoxLayout(self)
        column.setContentsMargins(4 * GRID, 4 * GRID, 4 * GRID, 4 * GRID)
        column.setSpacing(GRID)
        column.addStretch(2)
        column.addWidget(self._name)
        column.addWidget(self._facts)
        column.addSpacing(2 * GRID)
        column.addWidget(self._keys)
        column.addStretch(3)
        self.setAccessibleName("Empty chat")
        self.refresh()

    def eventFilter(self, ground: QObject, event: QEvent) -> bool:  # noqa: N802
        if isinstance(event, QResizeEvent):
            self.resize(event.size())
        return False

    def refresh(self) -> None:
        """Tell of the model that is open."""
        model = self._bench.session.model
        if model is None:
            self._name.setText("")
            self._facts.setText("")
            return
        self._name.setText(f"Ask {self._bench.session.model_title}")
        context = f"{grouped(model.n_ctx)} tokens of context" if model.n_ctx else ""
        parts = (model.architecture, model.device_name or model.device, context)
        facts = "  ·  ".join(part for part in parts if part)
        if model.chat == "none":
            facts += "\nThis is a base model: it continues text."
        self._facts.setText(facts)


def _middle(made: QLabel) -> QLabel:
    made.setAlignment(Qt.AlignmentFlag.AlignHCenter)
    return made
