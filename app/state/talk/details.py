"""Settings of a chat: title, system prompt, sampling, format, limits, draft."""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import structs
from PySide6.QtCore import QObject, QTimer, Signal

from app.defaults import Suggested, suggested_for
from app.state.preferences import PreferencesState
from app.state.presets import LONGEST_STOP, MOST_STOPS, AnswerLimits, OwnSampling, Preset
from app.state.session import Session
from app.state.talk.disk.store import UNTITLED, ChatRow
from engine.protocol import AnswerForm, Loaded, Sampling

Text = str | Callable[[], str]
"""A text, or what returns it: a long one takes a while to read from its field."""
DRAFT_MS = 500


class Details(QObject):
    """Settings of the open chat; `served` is the client's name if the chat is a logged request,
    which is read-only. The system prompt set here also becomes the model's default; limits apply to
    all chats with the model, the format to this chat.

    `own` are the numbers of sampling that the person set in this chat. They come before those that
    were saved for the model, and these before what is suggested for it (`app.defaults`).

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
        self.system, self.own = "", OwnSampling()
        self._draft: Text = ""
        self._suggested: tuple[Loaded | None, Suggested] = (None, Suggested())
        self.form: AnswerForm | None = None
        self.tools: tuple[str, ...] = ()
        self.take(None)  # with what was being typed when the program ended
        self._draft_timer = QTimer(self, singleShot=True, interval=DRAFT_MS)
        self._draft_timer.timeout.connect(self.save_draft)

    @property
    def draft(self) -> str:
        """The text of the message being written."""
        if callable(self._draft):
            self._draft = self._draft()
        return self._draft

    def take(self, chat: ChatRow | None) -> None:
        """Load the settings of a chat, or of a new one, without a signal."""
        if chat is None:
            self.title, self._draft = UNTITLED, self._preferences.value.draft
            self.served, self.own = "", OwnSampling()
        else:
            self.title, self._draft, self.served = chat.title, chat.draft, chat.served
            self.system, self.own = chat.system, chat.sampling
        self.form = None if chat is None else chat.form
        self.tools = () if chat is None else chat.tools

    def take_usual(self) -> None:
        """The system prompt that is usual for the model."""
        self.system = self._preferences.of_model(self._model).system or ""
        self.changed.emit()

    @property
    def settings(self) -> tuple[str, OwnSampling, AnswerForm | None]:
        """The settings that a new chat starts with."""
        return self.system, self.own, self.form

    def set_title(self, title: str) -> None:
        """Rename the chat."""
        self.title = title
        self._write(title=title)
        self.changed.emit()

    def set_system(self, text: str) -> None:
        """The system prompt from now on."""
        self.system = text
        self._save(system=text)

    @property
    def suggested(self) -> Suggested:
        """The suggested sampling for the open model, without the user's own values."""
        model = self._session.model
        if self._suggested[0] is not model:
            found = suggested_for(model, with_saved=False) if model is not None else Suggested()
            self._suggested = (model, found)
        return self._suggested[1]

    @property
    def saved(self) -> OwnSampling:
        """The numbers that were saved for the model."""
        return self._preferences.of_model(self._model).sampling or OwnSampling()

    @property
    def drawn(self) -> Suggested:
        """All numbers of this chat, with the origin of each."""
        return self.drawn_with(self.own)

    @property
    def sampling(self) -> Sampling:
        """How tokens are drawn."""
        return self.drawn.sampling

    def drawn_with(self, own: OwnSampling) -> Suggested:
        """All numbers where the person has set these."""
        return self.suggested.over(self.saved.values, "saved").over(own.values, "yours")

    def set_sampling(self, chosen: OwnSampling | Sampling) -> None:
        """Replace the numbers that the person set; None leaves one to the model."""
        self.own = OwnSampling(**structs.asdict(chosen))
        self._write(sampling=self.own)
        self.changed.emit()

    def set_number(self, field: str, value: float | None) -> None:
        """Set one number; None takes back what the person set."""
        self.set_sampling(structs.replace(self.own, **{field: value}))

    def reset_number(self, field: str) -> None:
        """Take back what the person set, in this chat or else for this model."""
        if getattr(self.own, field) is None:
            self._save_for_model(structs.replace(self.saved, **{field: None}))
        else:
            self.set_number(field, None)

    def take_preset(self, preset: Preset) -> None:
        """The preset's numbers; where it has none, what suits the model. The seed stays."""
        suited = {name: getattr(self.suggested.sampling, name) for name in self.saved.values}
        values = suited | preset.sampling.values | {"seed": self.own.seed}
        self.set_sampling(OwnSampling(**values))
        if preset.system is not None:
            self.set_system(preset.system)

    def has_preset(self, preset: Preset) -> bool:
        """True where this chat draws as the preset does, whatever the seed."""
        by_preset = self.suggested.over(preset.sampling.values, "yours").sampling
        return structs.replace(self.sampling, seed=None) == structs.replace(by_preset, seed=None)

    def save_for_model(self) -> None:
        """Every chat with the model takes the numbers that the person set here."""
        chosen = self.saved.values | self.own.values | {"seed": None}
        self._save_for_model(OwnSampling(**chosen))
        self.set_sampling(OwnSampling(seed=self.own.seed))

    def forget_saved(self) -> None:
        """Restore the model's suggested sampling for all its chats."""
        self._save_for_model(OwnSampling())

    def _save_for_model(self, chosen: OwnSampling) -> None:
        if self._session.path is not None:
            self._preferences.update_model(self._model, sampling=chosen if chosen.values else None)
            self.changed.emit()

    def set_form(self, form: AnswerForm | None) -> None:
        """Set the response format of further answers."""
        self.form = form
        self._write(form=form)
        self.changed.emit()

    def set_tools(self, names: Iterable[str]) -> None:
        """Offer these built-in tools, and those of these servers, to further answers."""
        self.tools = tuple(names)
        self._write(tools=self.tools)
        self.changed.emit()

    @property
    def limits(self) -> AnswerLimits:
        """Limits of answers; without the user's choice also the stop strings of the program that
        stores the model. Without a person's choice also the stop strings of the program that stores
        the model.
        """
        chosen = self._preferences.of_model(self._model).limits
        if chosen is not None:
            return chosen
        stops = [text for text in self.suggested.stop if len(text) <= LONGEST_STOP]
        return AnswerLimits(stop=stops[:MOST_STOPS])

    @property
    def _model(self) -> str:
        return str(self._session.path or "")

    def set_limits(self, limits: AnswerLimits) -> None:
        """Set the limits of further answers."""
        if self._session.path is not None:
            self._preferences.update_model(str(self._session.path), limits=limits)
            self.changed.emit()

    def set_draft(self, text: Text) -> None:
        """Set the draft text, or what returns it when it is first needed; saved half a second
        later.
        """
        self._draft = text
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
        self._draft = ""
        self.save_draft()
        self.draft_changed.emit("")

    def _save(self, **fields: Any) -> None:
        if self._session.path is not None:
            self._preferences.update_model(str(self._session.path), **fields)
        self._write(**fields)
        self.changed.emit()
