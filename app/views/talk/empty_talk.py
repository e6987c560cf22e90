"""A chat before its first message: the open model, and example questions."""

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QWidget

from app.defaults import suggested_for, suggested_questions
from app.fetch import bundled
from app.language import tr
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.tokens import GRID
from app.widgets.basics import LOOKS, Button, label, scrolled
from app.widgets.controls.offer import Offer
from app.widgets.layouts import vbox
from app.widgets.numbers import grouped
from engine.protocol import Loaded

KEYS = (
    ("Esc", tr("stops an answer")),
    ("↑", tr("edits the last question")),
    ("Ctrl+P", tr("shows token probabilities")),
)
ALONE = tr("This model answers each message by itself: it does not see the ones before it.")
BASE = tr("This is a base model: it continues text. Type the start of a text, or choose one below.")


class EmptyTalk(QWidget):
    """Lies over `ground`, beside it in its parent, as large as it, while nothing is said. One click
    on a question sends it.
    """

    demo_wanted = Signal()

    def __init__(self, bench: Workbench, ground: QWidget) -> None:
        super().__init__(ground.parentWidget())
        self._bench, self._ground = bench, ground
        self._of: Loaded | None = None  # whose questions are shown
        ground.installEventFilter(self)
        self._name = _middle(label(wrap=True))
        self._name.setFont(fonts.title())
        self._facts = _middle(label("", "quiet", wrap=True))
        self._note = _middle(label("", wrap=True))
        self.questions: list[Offer] = []
        self._offers = vbox(spacing=GRID // 2)
        self.demo = Button(tr("Try a vision model"), self.demo_wanted.emit, "link")
        keys = "     ".join(f"{key}  {what}" for key, what in KEYS)
        self._keys = _middle(label(keys, "quiet", "small", wrap=True))
        self._block = QWidget()
        self._block.setMaximumWidth(fonts.chat_width())
        vbox(
            self._name,
            self._facts,
            self._note,
            GRID,
            self._offers,
            (self.demo, Qt.AlignmentFlag.AlignHCenter),
            GRID,
            self._keys,
            on=self._block,
        )
        body = QWidget()
        across = QHBoxLayout()
        across.addStretch(1)
        across.addWidget(self._block, 1000)  # all, up to its widest
        across.addStretch(1)
        column = vbox(on=body, margins=2 * GRID, spacing=6)
        column.addStretch(2)
        column.addLayout(across)
        column.addStretch(3)
        vbox(scrolled(body), on=self)
        self.setAccessibleName(tr("Empty chat"))
        bench.chat.pictures_in_engine.changed.connect(self.refresh)
        self.refresh()

    def eventFilter(self, ground: QObject, event: QEvent) -> bool:  # noqa: N802
        if event.type() in (QEvent.Type.Resize, QEvent.Type.Move):
            self.setGeometry(self._ground.geometry())
        return False

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in LOOKS:
            self._name.setFont(fonts.title())
            self._block.setMaximumWidth(fonts.chat_width())

    def refresh(self) -> None:
        """Show the model that is open, and examples of questions."""
        model = self._bench.session.model
        if model is not self._of:
            self._of = model
            self._show_questions(model)
        sees = self._is_demo or bool(model is not None and self._bench.chat.pictures_in_engine.sees)
        self.demo.setVisible(model is not None and not sees and bundled.is_there())
        self._keys.setVisible(model is not None)
        if model is None:
            for text in (self._name, self._facts, self._note):
                text.setText("")
        else:
            base = model.chat == "none"
            title = self._bench.session.model_title
            self._name.setText(
                tr("Continue a text with {title}", title=title)
                if base
                else tr("Ask {title}", title=title)
            )
            context = (
                tr("{n_ctx} tokens of context", n_ctx=grouped(model.n_ctx)) if model.n_ctx else ""
            )
            parts = (model.architecture, model.device_name or model.device, context)
            self._facts.setText("  ·  ".join(part for part in parts if part))
            note = {"none": BASE, "alone": ALONE}.get(model.chat, "")
            self._note.setText(tr(bundled.KNOWS) if self._is_demo else note)
        self._note.setVisible(bool(self._note.text()))

    @property
    def _is_demo(self) -> bool:
        return self._bench.session.path == bundled.model()

    def _show_questions(self, model: Loaded | None) -> None:
        for old in self.questions:
            old.setParent(None)
            old.deleteLater()
        self.questions = []
        if model is None:
            return
        texts: tuple[str, ...] = bundled.QUESTIONS
        if not self._is_demo:
            texts = suggested_questions(suggested_for(model).family, model.chat)
        for text in texts:
            offer = Offer(text, "", self._sender(text))
            offer.setAccessibleName(text)
            self.questions.append(offer)
            self._offers.addWidget(offer)

    def _sender(self, text: str) -> Callable[[], None]:
        """Sends it; what was being written stays written."""

        def send() -> None:
            details = self._bench.chat.details
            draft = details.draft
            if self._bench.chat.send(text) and draft not in ("", *bundled.QUESTIONS):
                details.set_draft(draft)
                details.draft_changed.emit(draft)

        return send


def _middle(made: QLabel) -> QLabel:
    made.setAlignment(Qt.AlignmentFlag.AlignHCenter)
    return made
