"""Where a message is written."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPoint, Signal
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QWidget

from app.language import tr
from app.state.talk.context import DraftTokens
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import GRID, PADDING, RADIUS_CARD
from app.views.talk.composer_parts import OtherModel, Overflow, PromptMenu, Queued, SendButton
from app.views.talk.documents import AttachedStrip
from app.views.talk.edits import EditsBar
from app.views.talk.pictures.attachments import Attachments
from app.views.talk.sampling import SamplingPopover, in_words
from app.views.talk.tools import ServerQuestion, ToolsButton
from app.widgets.basics import Button, IconButton, label, surface
from app.widgets.controls.elided import ElidedLabel
from app.widgets.controls.growing_edit import GrowingEdit
from app.widgets.layouts import hbox, vbox
from app.widgets.numbers import grouped
from app.widgets.pictures.loader import PictureLoader
from app.widgets.plots.paper import painting
from app.widgets.tips import set_tip


class Composer(QWidget):
    """Sends to `bench.chat`; its focus proxy is the text field."""

    edit_last_wanted = Signal()  # Up in the empty field
    files_given = Signal(list)  # paths that were pasted
    picture_given = Signal(object)  # what makes the bytes of a pasted picture, in a thread
    choose_wanted = Signal()  # files, in a dialog

    def __init__(self, bench: Workbench, loader: PictureLoader) -> None:
        super().__init__()
        self.bench = bench
        surface(self, "canvas")
        self.field = GrowingEdit(tr("Message"), hands_on_long=True)
        self.field.set_placeholder(tr("Message"))
        self.field.submitted.connect(self.send)
        self.field.above_wanted.connect(self.edit_last_wanted)
        self.field.slash_typed.connect(self._slash_typed)
        self.field.files_given.connect(self.files_given)
        self.field.picture_given.connect(self.picture_given)
        self.field.long_text_given.connect(bench.chat.documents.add_text)
        self.field.textChanged.connect(self._typed)
        self.field.installEventFilter(self)
        self.setFocusProxy(self.field)
        self.counter = DraftTokens(bench.session, self)
        self.counter.changed.connect(self._refresh)
        self.attachments = Attachments(bench, loader, bench.chat.attached)
        self.attachments.changed.connect(self._refresh)
        self.documents = AttachedStrip(bench.chat.documents)
        bench.chat.documents.changed.connect(self._refresh)
        self.add = IconButton("attach", tr("Attach files"), self.choose_wanted.emit)
        self.tools = ToolsButton(bench)
        self.server = ServerQuestion(bench)
        self.sampling = IconButton("sliders", tr("Sampling and system prompt"), self.show_sampling)
        self.settings_button = ElidedLabel(size="small")
        self.settings_button.setProperty("tone", "quiet")
        self.settings_button.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.count = label("", "quiet", "small")
        self.send_button = SendButton(self.send, bench.chat.stop)
        self.next = Button(tr("Send next"), self.send, "link")
        set_tip(self.next, tr("Send when the answer ends (Enter)"))
        self.queued = Queued(bench.chat)
        self.other = OtherModel(bench)
        self.copy = Button(tr("Copy and continue"), self._copy, picture="copy")
        self.overflow = Overflow(bench)
        self.overflow.document_wanted.connect(self.documents.opened)
        self.popover: SamplingPopover | None = None
        self._prompts: PromptMenu | None = None
        self._lay_out()
        chat = bench.chat
        chat.details.draft_changed.connect(self._draft_changed)
        for changed in (chat.busy_changed, chat.next_changed, chat.path_changed):
            changed.connect(self._refresh)
        for changed in (chat.details.changed, bench.session.changed, bench.prompt.changed):
            changed.connect(self._refresh)
        bench.preferences.changed.connect(self._preference_changed)
        self._preference_changed("send_key")
        self._draft_changed(chat.details.draft)
        self._refresh()

    def send(self) -> None:
        """Ask what is written here, during an answer after it."""
        if self._sendable:
            chat = self.bench.chat
            if chat.busy:
                chat.set_sends_next(True)
                return
            if self.bench.session.status == "idle":
                self.other.open()  # the message is sent when it is ready
            chat.send(self.field.text)

    def _slash_typed(self) -> None:
        if self.bench.preferences.value.prompts:
            self.show_prompts()

    def show_prompts(self) -> None:
        """Offer the saved prompts, and to save what is written as one."""
        if self._prompts is None:
            self._prompts = PromptMenu(self.bench, self.field, self)
        self._prompts.refresh()
        above = self._card.mapToGlobal(QPoint(0, -self._prompts.sizeHint().height()))
        self._prompts.popup(above)

    def show_sampling(self, place: QWidget | None = None) -> None:
        """System prompt, presets and how tokens are drawn, above a widget or what is written."""
        if self.popover is None:
            self.popover = SamplingPopover(self.bench, self)
        self.popover.open_above(place or self._card)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        now = tokens()
        area = self._card.geometry().toRectF().adjusted(0.5, 0.5, -0.5, -0.5)
        with painting(self) as paper:
            paper.fill(area, now.panel, radius=RADIUS_CARD)
            paper.frame(area, now.accent if self.field.hasFocus() else now.faint, 1, RADIUS_CARD)

    def eventFilter(self, watched: object, event: QEvent) -> bool:  # noqa: N802
        if event.type() in (QEvent.Type.FocusIn, QEvent.Type.FocusOut):
            self.update()
        if event.type() == QEvent.Type.FocusIn:
            self.bench.chat.write_draft()
        return False

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._card.setMaximumWidth(fonts.chat_width())

    def _lay_out(self) -> None:
        self.edits = EditsBar(self.bench)
        self._card = QWidget()
        row = hbox(
            self.add,
            self.tools,
            self.sampling,
            (self.settings_button, 1),
            self.count,
            self.copy,
            self.next,
            self.send_button,
            spacing=GRID,
        )
        vbox(
            self.server,
            self.queued,
            self.other,
            self.attachments,
            self.documents,
            self.edits,
            self.field,
            self.overflow,
            row,
            on=self._card,
            margins=(12, 10, GRID, GRID),
            spacing=6,
        )
        self._card.setMaximumWidth(fonts.chat_width())
        line = QHBoxLayout(self)  # as wide as the messages above, and where they are
        line.setContentsMargins(PADDING, GRID // 2, PADDING, PADDING)
        line.addWidget(self._card, 1)
        for before, after in (
            (self.field, self.overflow.choice),
            (self.overflow.choice, self.send_button),
            (self.send_button, self.copy),
            (self.copy, self.add),
            (self.add, self.tools),
            (self.tools, self.sampling),
        ):
            QWidget.setTabOrder(before, after)

    def _copy(self) -> None:
        """A chat of one's own from a program's request."""
        if self.bench.chat.chat_id is not None:
            self.bench.chats.duplicate(self.bench.chat.chat_id)

    def _typed(self) -> None:
        chat = self.bench.chat
        text = self._text if self.field.long else self.field.text
        if callable(text) or text != chat.details.draft:
            chat.details.set_draft(text)
            chat.set_sends_next(False)
        self.counter.set_text(text)
        self.bench.prompt.written()
        self._refresh()

    def _text(self) -> str:
        return self.field.text

    def _draft_changed(self, draft: str) -> None:
        if draft != self.field.text:
            self.field.set_text(draft)

    def _preference_changed(self, field: str) -> None:
        if field == "send_key":
            on_enter = self.bench.preferences.value.send_key == "enter"
            self.field.submits_on_enter = on_enter
            self.send_button.key = "Enter" if on_enter else "Ctrl+Enter"
            self._refresh()
        elif field == "presets":
            self._refresh()

    @property
    def _sendable(self) -> bool:
        chat = self.bench.chat
        attached = self.attachments.any or bool(chat.documents.documents)
        asks = not self.field.blank or attached
        free = not (chat.details.served or self.overflow.refuses)
        ready = self.attachments.ready and not chat.documents.arriving
        return asks and free and ready

    def _refresh(self) -> None:
        chat = self.bench.chat
        written = not self.field.blank
        served = chat.details.served
        model = self.bench.session.model
        begins = (
            tr("Text to continue") if model is not None and model.chat == "none" else tr("Message")
        )
        self.field.set_placeholder(
            tr("Logged request from {served} (read-only)", served=served) if served else begins
        )
        self.other.refresh()
        self.field.setReadOnly(bool(served))
        self.copy.setVisible(bool(served))
        self.send_button.setVisible(not served)
        self.tools.refresh()
        self.settings_button.setText(in_words(self.bench))
        count = self.counter.count
        known = written and count is not None
        self.count.setText(tr("{count} tok", count=grouped(count)) if known else "")
        asks = known or self.attachments.any or bool(chat.documents.documents)
        self.overflow.show_question((count or 0) if asks else None)
        self.queued.refresh()
        self.next.setVisible(chat.busy and self._sendable and not (chat.queued or chat.sends_next))
        self.send_button.show_state(chat.busy, self._sendable)
