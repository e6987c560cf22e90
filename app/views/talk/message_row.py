"""A row of the talk: its message, what can be done with it, and its signals for the talk."""

from collections.abc import Callable, Sequence

from msgspec import structs
from PySide6.QtCore import QObject, Signal

from app import names
from app.language import tr
from app.state.session import PastStage, StageProgress
from app.state.talk.attached import EditedPictures
from app.state.talk.documents import DocumentTokens
from app.state.talk.message import Message, Picture
from app.state.talk.pictures_in_engine import PicturesInEngine
from app.state.talk.tokens import Tokens
from app.state.workbench import Workbench
from app.tools.consent import Decision
from app.tools.tool import KnownTool
from app.views.talk.pictures.attachments import Attachments
from app.widgets.pictures.loader import PictureLoader
from app.widgets.tokens.bands import Measure
from app.widgets.tokens.lights import Light


class MessageRow(QObject):
    """Row `number` of the open chat, given to each widget that shows a part of it.

    `measure` says by what its tokens are painted. The signals are requests of a part to the view
    around it.
    """

    edit_wanted = Signal()
    details_wanted = Signal(str)  # of a problem, by its text: the log
    link_wanted = Signal(str)  # an address
    sibling_wanted = Signal(int)  # how many branches further
    branch_wanted = Signal(int, int)  # token, alternative
    picture_wanted = Signal(object, int)  # pictures, the place of the one to be looked at
    files_given = Signal(list)  # paths that were pasted while it is edited
    picture_given = Signal(object)  # likewise a picture that is not a file: what makes its bytes
    document_wanted = Signal(object)  # the document to be shown
    choose_wanted = Signal()  # pictures, in a dialog
    vision_wanted = Signal()  # the open model cannot see
    rewritten = Signal()

    def __init__(self, bench: Workbench, number: int, measure: Measure, parent: QObject) -> None:
        super().__init__(parent)
        self.number, self.measure = number, measure
        self._bench = bench

    # What is there

    @property
    def message(self) -> Message:
        return self._bench.chat.path[self.number]

    @property
    def is_question(self) -> bool:
        return self.message.role == "user"

    @property
    def is_last(self) -> bool:
        return self.number == len(self._bench.chat.path) - 1

    @property
    def answering(self) -> bool:
        """True while the message is generated."""
        return self._bench.chat.answering == self.number

    @property
    def stage(self) -> StageProgress | None:
        """How far the engine is with it, while it is being written."""
        return self._bench.session.stage

    @property
    def past_stages(self) -> list[PastStage]:
        """Finished stages of the message that is being generated."""
        return self._bench.session.past_stages

    @property
    def pictures_in_engine(self) -> PicturesInEngine:
        """Pictures uploaded to the engine."""
        return self._bench.chat.pictures_in_engine

    @property
    def document_tokens(self) -> DocumentTokens:
        """The token counts of documents."""
        return self._bench.chat.documents.counts

    @property
    def tokens(self) -> Tokens:
        return self._bench.chat.tokens(self.number)

    @property
    def selected_token(self) -> int | None:
        """The index of its selected token, or None."""
        token = self._bench.selection.now.token
        return token[1] if token is not None and token[0] == self.message.id else None

    @property
    def selected_part(self) -> tuple[int, int] | None:
        """Where the selected one of its tokens stands in its text, as far as that is known."""
        index = self.selected_token
        return None if index is None else self._bench.token.part(self.message.id, index)

    @property
    def lights(self) -> Sequence[Light]:
        """Highlighted ranges of its text."""
        return self._bench.token.lights(self.message.id)

    @property
    def painted(self) -> bool:
        """True if it is shown as coloured tokens."""
        wanted = self._bench.preferences.value.probabilities_shown
        return bool(wanted) and not self.is_question and len(self.tokens) > 0

    @property
    def speaker(self) -> str:
        """Who said it."""
        return tr("You") if self.is_question else names.title(self.message.model) or tr("Answer")

    @property
    def speaker_text(self) -> str:
        """Its name for screen readers."""
        return tr("{speaker}, message {number}", speaker=self.speaker, number=self.number + 1)

    @property
    def send_key(self) -> str:
        return self._bench.preferences.value.send_key

    @property
    def can_show_unchanged(self) -> bool:
        """True if the original answer exists next to this modified one."""
        return self._bench.trial.plain(self.message) is not None

    def show_unchanged(self) -> None:
        """Show the answer of the unchanged model instead."""
        self._bench.trial.show_plain(self.message)

    @property
    def unsaved(self) -> bool:
        """True if it has ended and could not be saved yet."""
        return self._bench.chat.writers.is_unsaved(self.message)

    @property
    def of_request(self) -> bool:
        """True if it belongs to a logged request, which is read-only."""
        return bool(self._bench.chat.details.served)

    @property
    def continues_text(self) -> bool:
        """True if a base model wrote it, which has no chat template."""
        session = self._bench.session
        open_now = session.model is not None and self.message.model == session.model_name
        return open_now and session.model is not None and session.model.chat == "none"

    @property
    def drops_oldest(self) -> bool:
        """True if answers drop the oldest tokens when the context is full."""
        return self._bench.chat.details.limits.when_full == "shift"

    @property
    def stronger_penalty(self) -> float:
        """A repeat penalty above the one that is set."""
        return round(max(1.1, self._bench.chat.details.sampling.repeat_penalty + 0.1), 2)

    @property
    def next_step(self) -> tuple[str, Callable[[], object]]:
        """The title and the action that may repair a failed answer."""
        if self.message.text:
            return tr("Continue"), self.continue_answer
        return tr("Try again"), self.regenerate

    # What can be done with it

    def tool_of(self, number: str) -> KnownTool | None:
        """The tool of a call under way, as its server describes it."""
        return self._bench.tools.tool_of(self.message.calls, number)

    def decide_call(self, number: str, decision: Decision) -> None:
        """Allow or deny a requested call."""
        self._bench.tools.decide(self.message.calls, number, decision)

    def regenerate(self) -> None:
        self._bench.chat.regenerate(self.number)

    def continue_answer(self) -> None:
        self._bench.chat.continue_answer(self.number)

    def continue_dropping(self) -> None:
        """Go on, and from now on drop the oldest tokens where the context is full."""
        details = self._bench.chat.details
        details.set_limits(structs.replace(details.limits, when_full="shift"))
        self.continue_answer()

    def penalise_repetition(self, penalty: float) -> None:
        """Answer again with a repeat penalty."""
        details = self._bench.chat.details
        details.set_number("repeat_penalty", penalty)
        self.regenerate()

    def branch_off(self) -> None:
        """Go on from here in a new chat; this one stays as it is."""
        self._bench.chats.duplicate(self.message.chat, until=self.message.id)

    def delete(self) -> None:
        """Delete the message with all that follows."""
        self._bench.chat.delete_message(self.number)

    def edit_pictures(self, parent: QObject) -> EditedPictures:
        """Its pictures, to be changed."""
        return self._bench.chat.edit_pictures(self.number, parent)

    def attachments(self, pictures: EditedPictures, loader: PictureLoader) -> Attachments:
        """Make the widget that shows the pictures."""
        made = Attachments(self._bench, loader, pictures)
        made.vision_wanted.connect(self.vision_wanted)
        made.opened.connect(lambda place: self.picture_wanted.emit(pictures.pictures, place))
        return made

    def write(self, pictures: EditedPictures) -> None:
        """Direct further pictures to this edited message."""
        self._bench.chat.written = pictures

    def end_edit(self) -> None:
        """Direct further pictures to the draft."""
        self._bench.chat.write_draft()

    def rewrite(self, text: str, pictures: tuple[Picture, ...] | None = None) -> bool:
        """Replace the text, as a branch; a question is sent again, about these pictures."""
        done = self._bench.chat.edit_and_resend(self.number, text, pictures)
        if done:
            self.rewritten.emit()
        return done

    def look_at(self, position: int) -> None:
        """Select the token at a place of its text."""
        self._bench.token.look_at(self.message.id, position)
        self._bench.selection.word_clicked.emit()

    def select_token(self, index: int) -> None:
        self._bench.selection.select_token(self.message.id, index)
        self._bench.selection.word_clicked.emit()
