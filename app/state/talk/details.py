"""What a chat has beside its messages: title, system prompt, sampling, form, limits, draft."""

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from app.state.limits import AnswerLimits
from app.state.preferences import PreferencesState
from app.state.session import Session
from app.state.talk.disk.store import UNTITLED, ChatRow
from engine.protocol import AnswerForm, Sampling

DRAFT_MS = 500


class Details(QObject):
    """Those of the chat that is open; `served` is the program that asked, where it is a request of
    another, which is only read. The system prompt and the sampling set here are also the
    usual ones of the model; the limits are those of all chats with it, the form is the chat's own.

    `write` stores fields of the chat and returns False where there is no chat yet.
    """

    changed = Signal()  # title, system prompt, sampling, limits
    draft_changed = Signal(str)  # when not by set_draft: another chat, or it was sent

    def __init__(
        self,
        session: Session,
        preferences: PreferencesState,
        write: Callable[..., bool],
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._session, self._preferences, self._write = session, preferences, write
        self.system, self.sampling = "", Sampling()
        self.form: AnswerForm | None = None
        self.take(None)  # with what was being typed when the program ended
        self._draft_timer = QTimer(self, singleShot=True, interval=DRAFT_MS)
        self._draft_timer.timeout.connect(self.save_draft)

    def take(self, chat: ChatRow | None) -> None:
        """Those of a chat, or of a new one; tells nobody yet."""
        if chat is None:
            self.title, self.draft = UNTITLED, self._preferences.value.draft
            self.served = ""
        else:
            self.title, self.draft, self.served = chat.title, chat.draft, chat.served
            self.system, self.sampling = chat.system, chat.sampling
        self.form = None if chat is None else chat.form

    def take_usual(self) -> None:
        """The system prompt and the sampling that are usual for the model."""
        usual = self._preferences.of_model(str(self._session.path or ""))
        self.system, self.sampling = usual.system or "", usual.sampling or Sampling()
        self.changed.emit()

    @property
    def settings(self) -> tuple[str, Sampling, AnswerForm | None]:
        """What a chat begins with."""
        return self.system, self.sampling, self.form

    def set_title(self, title: str) -> None:
        """Rename the chat."""
        self.title = title
        self._write(title=title)
        self.changed.emit()

    def set_system(self, text: str) -> None:
        """The system prompt from now on."""
        self.system = text
        self._save(system=text)

    def set_sampling(self, sampling: Sampling) -> None:
        """How answers are drawn from now on."""
        self.sampling = sampling
        self._save(sampling=sampling)

    def set_form(self, form: AnswerForm | None) -> None:
        """What the chat's answers must be like from now on."""
        self.form = form
        self._write(form=form)
        self.changed.emit()

    @property
    def limits(self) -> AnswerLimits:
        """What ends answers."""
        return self._preferences.of_model(str(self._session.path or "")).limits or AnswerLimits()

    def set_limits(self, limits: AnswerLimits) -> None:
        """What ends answers from now on."""
        if self._session.path is not None:
            self._preferences.update_model(str(self._session.path), limits=limits)
            self.changed.emit()

    def set_draft(self, text: str) -> None:
        """What is being typed; saved half a second later."""
        self.draft = text
        self._draft_timer.start()

    def save_draft(self) -> None:
        """Write what is being typed: to the chat, or to the preferences before there is one."""
        self._draft_timer.stop()
        if not self._write(draft=self.draft):
            self._preferences.update(draft=self.draft)

    def clear_draft(self, was_new: bool) -> None:
        """It was sent; `was_new` says that it was typed before there was a chat."""
        if was_new:
            self._preferences.update(draft="")
        self.draft = ""
        self.save_draft()
        self.draft_changed.emit("")

    def _save(self, **fields: Any) -> None:
        if self._session.path is not None:
            self._preferences.update_model(str(self._session.path), **fields)
        self._write(**fields)
        self.changed.emit()
