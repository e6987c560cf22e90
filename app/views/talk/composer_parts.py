"""Buttons and lines around the field of a message: sending, waiting, length, the other model."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QInputDialog, QMenu, QSizePolicy, QWidget

from app import names
from app.language import tr, tr_n
from app.state.presets import LONGEST_PROMPT, LONGEST_PROMPT_NAME, SavedPrompt
from app.state.talk.chat import ChatState
from app.state.workbench import Workbench
from app.views.talk.settings import WhenFullChoice
from app.widgets.basics import Button, label, literal, set_tone
from app.widgets.controls.growing_edit import GrowingEdit
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.numbers import grouped
from app.widgets.tips import set_tip

THIN_SPACE, NARROW_SPACE = "\u2009", "\u202f"  # a line may break at the first
MOST_SHOWN = 30  # saved prompts in a menu
LOST = {
    "shift": tr("the oldest messages will be dropped"),
    "middle": tr("the middle will be cut"),
    "stop": tr("shorten it to send it"),
}


class Overflow(QWidget):
    """Hidden where all fits."""

    document_wanted = Signal(int)  # place of a document to be cut

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench = bench
        self.words = label("", "warn", "small", wrap=True)
        self.words.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.choice = WhenFullChoice(bench)
        self.longer = Button(tr("Reload"), self._use_longer, "link")
        self._n_ctx: int | None = None  # what `longer` offers
        self.parts = Button(tr("Choose parts…"), self._choose_parts, "link")
        steps = hbox(self.longer, self.parts, STRETCH, self.choice)
        vbox(self.words, steps, on=self, spacing=0)
        self.hide()

    @property
    def refuses(self) -> bool:
        """True if the message cannot be sent."""
        return not self.isHidden() and self._policy == "stop"

    def show_question(self, tokens: int | None) -> None:
        """Take the tokens of the question; None where unknown, or where nothing is written."""
        if tokens is None:
            self.hide()
            return
        use = self._bench.prompt.use
        needed = use.used + (0 if use.whole else tokens)
        over = needed - (use.n_ctx - 1)  # one is for the answer
        self.setVisible(use.n_ctx > 0 and over > 0)
        words = tr_n(
            "{n} token too long for the context of {n_ctx}: {lost}.",
            "{n} tokens too long for the context of {n_ctx}: {lost}.",
            max(0, over),
            n_ctx=grouped(use.n_ctx),
            lost=LOST[self._policy],
        )
        self.words.setText(words.replace(THIN_SPACE, NARROW_SPACE))
        set_tone(self.words, "bad" if self._policy == "stop" else "warn")
        self.parts.setVisible(bool(self._bench.chat.documents.documents))
        self._offer_longer(needed)

    def _offer_longer(self, needed: int) -> None:
        n_ctx = self._n_ctx = self._bench.session.longer_context(needed)
        self.longer.setVisible(n_ctx is not None)
        if n_ctx is not None:
            self.longer.set_text(tr("Reload with {n_ctx} tokens", n_ctx=grouped(n_ctx)))

    def _use_longer(self) -> None:
        """Load the model again with a context in which the message fits, and remember that."""
        session = self._bench.session
        if session.path is not None and self._n_ctx is not None:
            self._bench.open_model(session.path, replace(session.options, ctx=self._n_ctx))

    def _choose_parts(self) -> None:
        """Open the longest document, of which less can be sent."""
        documents = self._bench.chat.documents.documents
        if documents:
            sizes = [len(document.text) for document in documents]
            self.document_wanted.emit(sizes.index(max(sizes)))

    @property
    def _policy(self) -> str:
        return self._bench.chat.details.limits.when_full


class PromptMenu(QMenu):
    """Saved prompts; one that is chosen takes the place of a "/", or follows what is written."""

    def __init__(self, bench: Workbench, field: GrowingEdit, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Saved prompts"))
        self._preferences, self._field = bench.preferences, field

    def refresh(self) -> None:
        """Show the prompts of now."""
        self.clear()
        prompts = self._preferences.value.prompts
        for prompt in prompts[:MOST_SHOWN]:
            self.addAction(literal(prompt.name), partial(self._insert, prompt))
        self.addSeparator()
        save = self.addAction(tr("Save the message as a prompt…"), self.save)
        save.setEnabled(bool(self._written))
        delete = self.addMenu(tr("Delete a prompt"))
        delete.setEnabled(bool(prompts))
        for prompt in prompts[:MOST_SHOWN]:
            remove = partial(self._preferences.delete_prompt, prompt.name)
            delete.addAction(literal(prompt.name), remove)

    def save(self) -> None:
        """Request a name and keep the message under it."""
        text = self._written[:LONGEST_PROMPT]
        usual = " ".join(text.split())[:40]
        name, agreed = QInputDialog.getText(self, tr("Save as prompt"), tr("Name"), text=usual)
        name = " ".join(name.split())[:LONGEST_PROMPT_NAME]
        if agreed and name and text:
            self._preferences.save_prompt(SavedPrompt(name, text))

    @property
    def _written(self) -> str:
        text = self._field.text.strip()
        return "" if text == "/" else text

    def _insert(self, prompt: SavedPrompt) -> None:
        self._field.set_text("\n\n".join(filter(None, (self._written, prompt.text))))
        self._field.setFocus()


class SendButton(Button):
    """Sends; during an answer it stops it, in the same place and size."""

    def __init__(self, send: Callable[[], object], stop: Callable[[], object]) -> None:
        super().__init__(tr("Send"), lambda: (stop if self._stops else send)(), "primary")
        self.key = "Enter"
        self._stops = False

    def show_state(self, busy: bool, sendable: bool) -> None:
        """`busy` during an answer."""
        self._stops = busy
        self.setText(tr("Stop") if busy else tr("Send"))
        self.setAccessibleName(tr("Stop the answer") if busy else tr("Send"))
        set_tip(self, "Esc" if busy else self.key)
        self.setEnabled(busy or sendable)

    def sizeHint(self) -> QSize:  # noqa: N802
        """Room for either word."""
        hint = super().sizeHint()
        metrics = self.fontMetrics()
        widths = [metrics.horizontalAdvance(word) for word in (tr("Send"), tr("Stop"))]
        return QSize(
            hint.width() + max(widths) - metrics.horizontalAdvance(self.text()), hint.height()
        )

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """A double click sends; its second press does not stop the answer."""
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        if not event.isAutoRepeat():  # a key held down would send, then stop
            super().keyPressEvent(event)


class Queued(QWidget):
    """Shown while the last question waits for the model, or what is written for the answer."""

    def __init__(self, chat: ChatState) -> None:
        super().__init__()
        self._chat = chat
        self.words = label("", "quiet", "small", wrap=True)
        self.button = Button(
            tr("Cancel"), self._cancel, "link", name=tr("Cancel sending the message")
        )
        hbox((self.words, 1), self.button, on=self)

    def refresh(self) -> None:
        """Say what the message waits for."""
        self.setVisible(self._chat.queued or self._chat.sends_next)
        waits_for = tr("the model is ready") if self._chat.queued else tr("the answer ends")
        self.words.setText(tr("Sent when {waits_for}.", waits_for=waits_for))

    def _cancel(self) -> None:
        if self._chat.queued:
            self._chat.take_back()
        else:
            self._chat.set_sends_next(False)


class OtherModel(QWidget):
    """Shown where the chat's last answer came from another model than the next one would."""

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench = bench
        self.words = label("", "quiet", "small", wrap=True)
        self.button = Button(tr("Open"), self.open, "link")
        hbox((self.words, 1), self.button, on=self)

    def refresh(self) -> None:
        """Compare the chat's last model with the open one."""
        session, before = self._bench.session, self._before
        shown = before != "" and session.status != "loading" and before != session.model_name
        self.setVisible(shown)
        if not shown:
            return
        title = names.title(before)
        now = (
            tr("; new answers use {model_title}", model_title=session.model_title)
            if session.model is not None
            else ""
        )
        self.words.setText(tr("This chat used {title}{now}.", title=title, now=now))
        self.button.setText(tr("Open {title}", title=title))
        self.button.setAccessibleName(self.button.text())
        self.button.setVisible(self._bench.path_of(before) is not None)

    def open(self) -> None:
        """Open the chat's last model, where it is known."""
        path = self._bench.path_of(self._before)
        if path is not None:
            self._bench.open_model(path)

    @property
    def _before(self) -> str:
        path = self._bench.chat.path
        return next((m.model for m in reversed(path) if m.role == "assistant" and m.model), "")
