"""The chat that is open: the messages of its active path, and what a person can do with them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from PySide6.QtCore import QObject, Signal

from app.language import tr
from app.state.live import LiveWanted
from app.state.preferences import PreferencesState
from app.state.problem import Problem
from app.state.session import Session
from app.state.talk.answer import NO_TOOLS, Answer
from app.state.talk.answering import Answering, Manner, Writer, Writers
from app.state.talk.attached import Attached, EditedPictures, PictureList
from app.state.talk.chat_edits import ChatEdits
from app.state.talk.context import ContextUse, context_use
from app.state.talk.details import Details
from app.state.talk.disk.store import ChatGone, ChatStore, StoreError
from app.state.talk.documents import AttachedDocuments
from app.state.talk.edits import NO_EDITS, EditSet
from app.state.talk.message import Message, Picture, title_of
from app.state.talk.pictures_in_engine import PicturesInEngine
from app.state.talk.rounds import ToolRounds
from app.state.talk.thread import Thread
from app.state.talk.tokens import Tokens
from app.state.talk.tree import Tree
from app.state.tools.tools import ToolsState
from engine.errors import BadSetting
from engine.protocol import Alternative, Generate, Speculation

ENDED_BY_ITSELF = ("stop", "length", "calls")
"""Ends of an answer after which the next message may go."""


class ChatState(QObject):
    """One chat. Rows are positions in `path`; all changes go through its methods. `attached` are
    the pictures of the message being written, `documents` its documents, `pictures_in_engine` the
    pictures that the engine holds, `written` those of what was written at last: that message, or
    one that is edited.

    An answer goes on when another chat is opened, and is saved where it belongs. A question sent
    while the model loads waits for it; after a crash it restarts the engine. Methods that use the
    engine return whether they could, with `problem` where not.
    """

    opened = Signal()  # another chat, or a new one
    path_changed = Signal(int)  # rows from this one on are other messages now (0: another chat)
    message_added = Signal(int)  # row, at the end
    message_changed = Signal(int)  # row; while answering at most once a frame
    tokens_appended = Signal(int, int)  # row, first index in tokens(row) that is new or longer
    busy_changed = Signal(bool)
    next_changed = Signal()  # `sends_next`
    message_deleted = Signal(int)  # how many with it; to be undone until `opened`
    found = Signal(object, object)  # row that was searched for and the words, or None
    stored = Signal()  # the list of chats may look different
    problem = Signal(object)  # Problem of the person's last command

    def __init__(
        self,
        store: ChatStore,
        session: Session,
        preferences: PreferencesState,
        parent: QObject | None = None,
        tools: ToolsState | None = None,
    ) -> None:
        super().__init__(parent)
        self.store, self._session = store, session
        self.tools = tools
        self._rounds = None if tools is None else ToolRounds(store, session, tools)
        if tools is not None:
            tools.problem.connect(self.problem)
        self._thread = Thread(store)
        self.details = Details(session, preferences, self._write, self)
        self.edits = ChatEdits(store.vectors, self._write, self)
        self.edits.problem.connect(self.problem)
        self._preferences = preferences
        self.attached = Attached(store, session, preferences, self)
        self.attached.problem.connect(self.problem)
        self.written: PictureList = self.attached
        self.documents = AttachedDocuments(store, session, self.attached, self)
        self.documents.problem.connect(self.problem)
        self.sends_next = False
        self.pictures_in_engine = PicturesInEngine(
            session.client, session, store.pictures.files, self
        )
        session.given_up.connect(self.take_back)  # before what waits is ended
        self._answering = Answering(
            store, session, self.pictures_in_engine, self, self._rounds, self._answer_again
        )
        self.edits.settled.connect(lambda: self._answering.revise(self.running, self.edits))
        self.writer = Writer(session, self.details, self._answering)
        self.writers = Writers()
        self.add_writer(self.writer)
        session.changed.connect(self._take_usual)
        self.problem.connect(self._keep_next_as_draft)
        self.open(None)

    def add_writer(self, writer: Writer) -> None:
        """Take the answers of one more model, which `begin_beside` can request."""
        self.writers.append(writer)
        answering = writer.answering
        answering.appended.connect(self._on_appended)
        answering.called.connect(self._on_called)
        answering.ended.connect(self._on_ended)
        answering.saved.connect(self._on_ended)
        answering.busy_changed.connect(lambda: self.busy_changed.emit(self.busy))
        answering.problem.connect(self.problem)

    @property
    def chat_id(self) -> int | None:
        """The chat's id in the store; None until its first question."""
        return self._thread.chat_id

    @property
    def path(self) -> list[Message]:
        """The messages shown, from the first on."""
        return self._thread.path

    @property
    def busy(self) -> bool:
        """True while an answer is generated in this chat."""
        return self.running is not None

    @property
    def running(self) -> Answer | None:
        """The answer under way of this chat; of two, the one that is shown."""
        mine = self.writers.of(self.chat_id)
        shown = (answer for answer in mine if self._thread.row(answer.message) is not None)
        return next(shown, mine[0] if mine else None)

    @property
    def latest(self) -> Message | None:
        """The answer under way or the one before, maybe of another chat: whose speed is shown."""
        return self._answering.latest

    @property
    def live(self) -> LiveWanted:
        """The live data that running and later answers send."""
        return self._answering.live

    @property
    def answer(self) -> Answer | None:
        """The answer under way of this chat, else the one of another that began last."""
        return self.running or self._answering.newest

    @property
    def answering(self) -> int | None:
        """The row of the answer under way, None if it is not in the path shown."""
        return None if self.running is None else self._thread.row(self.running.message)

    @property
    def context(self) -> ContextUse:
        """How the messages shown and the pictures attached fill the context of the open model."""
        model = self._session.model
        n_ctx = model.n_ctx if model is not None else 0
        pictures, files = self.attached.pictures, self.documents.tokens
        return context_use(
            self.path, self.details.system, n_ctx, self.pictures_in_engine.tokens, pictures, files
        )

    def open(self, chat_id: int | None) -> None:
        """Show a chat; None is a new one, kept from its first message on."""
        self.details.save_draft()
        self.set_sends_next(False)
        try:
            chat = self.store.chat(chat_id) if chat_id is not None else None
            tree = self.store.tree(chat.id) if chat is not None else Tree()
        except StoreError as error:
            self.problem.emit(Problem(error.kind, str(error)))
            return
        held = self.writers.held(chat.id) if chat is not None else None
        tree = held.tree if held is not None else tree
        self._thread = Thread(self.store, chat.id if chat is not None else None, tree)
        self.details.take(chat)
        self.edits.take(chat.edits if chat is not None else NO_EDITS)
        self._show_attached()
        self._take_usual()
        self.details.changed.emit()
        self.details.draft_changed.emit(self.details.draft)
        self.path_changed.emit(0)
        self.busy_changed.emit(self.busy)
        self.opened.emit()

    def open_at(self, chat_id: int, message_id: int | None, words: list[str]) -> None:
        """Show a chat at the message in which words were found."""
        if chat_id != self.chat_id:
            self.open(chat_id)
        tree = self._thread.tree
        message = tree.messages.get(message_id or 0)
        if message is not None and chat_id == self.chat_id:
            if message not in self.path:
                tree.show(message)
                self._show_path(0)
            self.found.emit(self._thread.row(message), words)

    def send(self, text: str, by: Writer | None = None) -> bool:
        """Ask a question, with what is attached, at the end of the path."""
        attached = self.attached.pictures or self.documents.documents
        arriving = self.attached.arriving or self.documents.arriving
        has_content = bool(text.strip() or attached) and not arriving
        if not has_content or not self._may_send():
            return False
        with self._storing():
            self._send(text, by)
            return True
        return False

    def set_sends_next(self, sends: bool) -> None:
        """Send the draft when the answer under way has ended by itself. An answer that is stopped
        or fails, another chat and another text keep it a draft.
        """
        sends = sends and self.busy and not self.queued
        if sends != self.sends_next:
            self.sends_next = sends
            self.next_changed.emit()

    @property
    def queued(self) -> bool:
        """True if the last message is sent when the model is ready."""
        return self._answering.waits_for_model(self.running)

    def stop(self) -> None:
        """End the answers under way; what there is of them stays. Takes back what is queued."""
        self.set_sends_next(False)
        if self.queued:
            self.take_back()
        else:
            for answer in self.writers.of(self.chat_id):
                self.writers.stop(answer.message)

    def take_back(self) -> None:
        """The question that waits for the model is a draft again, before what was typed since."""
        running = self.running
        row = self.answering
        if running is None or row is None or not self.queued:
            return
        question = self.path[row - 1]
        self._answering.stop(running)
        has_no_siblings = len(self.siblings(running.message)) == len(self.siblings(question)) == 1
        if has_no_siblings and row == len(self.path) - 1:
            with self._storing():
                self._unsend(question, row - 1)

    def regenerate(self, row: int, by: Writer | None = None) -> bool:
        """Another answer beside the one at `row`, or an answer to the question there."""
        question = row if self.path[row].role == "user" else row - 1
        return self._may_send() and self._answer(self.path[question], question + 1, by=by)

    def begin_beside(
        self, message: Message, make: Callable[[Thread], Answer], by: Writer
    ) -> Answer | None:
        """Begin another answer next to one, at the same time; the path stays."""
        with self._storing():
            shown = self._thread.tree.chosen(message.parent)
            answer = make(self._thread)
            if shown is not None:
                self._thread.choose(shown)
                self._show_path(self._thread.row(shown) or 0)
            self._begin(answer, by=by)
            return answer
        return None

    def answer_edited(self, row: int, edits: EditSet, most: int) -> bool:
        """Another answer beside the one at `row`, with these edits, of at most so many tokens."""
        above = self._thread.parent(self.path[row])
        return above is not None and self._may_send() and self._answer(above, row, edits, most)

    def edit_and_resend(
        self, row: int, text: str, pictures: tuple[Picture, ...] | None = None
    ) -> bool:
        """A branch: another question with its answer, about other pictures where these are given;
        of an answer, another text.
        """
        message = self.path[row]
        if message.role == "assistant":
            free = not self.details.served or self._is_free()
            return free and self._edit_answer(message, row, text)
        shown = message.pictures if pictures is None else pictures
        if not (text.strip() or shown or message.documents) or not self._may_send():
            return False
        with self._storing():
            above = self._thread.parent(message)
            with self._thread.together():
                question = self._thread.add(
                    "user", above, text, pictures=shown, documents=message.documents
                )
                answer = self._thread.answer_to(question, *self.edits.now())
            self._show_path(row)
            self._begin(answer)
            return True
        return False

    def edit_pictures(self, row: int, parent: QObject) -> EditedPictures:
        """The pictures of the question at `row`, to be changed for `edit_and_resend`."""
        pictures = self.path[row].pictures
        made = EditedPictures(self.store, self._session, self._preferences, pictures, parent)
        made.problem.connect(self.problem)
        made.destroyed.connect(self.write_draft)
        return made

    def write_draft(self) -> None:
        """Pictures that come from now on are for the message being written."""
        self.written = self.attached

    def continue_answer(self, row: int) -> bool:
        """Go on where the answer at `row` ended; beside it where something follows it."""
        if not self._may_send():
            return False
        message = self.path[row]
        if message.calls:  # the model goes on with their results
            return self._answer(message, row + 1)
        with self._storing():
            sent = self.edits.request(message.edits)
            answer = self._thread.go_on(message, self.writer.wrote(message), sent)
            if answer.message is not message:
                self._show_path(row)
            self._begin(answer)
            return True
        return False

    def branch_from_token(self, row: int, index: int, alternative: int) -> bool:
        """Add a sibling that takes `tokens(row)[index].top[alternative]` there and continues."""
        return self.branch_with(row, index, self.tokens(row)[index].top[alternative])

    def branch_with(self, row: int, index: int, other: Alternative) -> bool:
        """Add a sibling that takes that token in the place of `tokens(row)[index]`."""
        if not self._may_send():
            return False
        with self._storing():
            message = self.path[row]
            by_ids, sent = self.writer.wrote(message), self.edits.request(message.edits)
            answer = self._thread.branch(message, index, other, by_ids, sent)
            self._show_path(row)
            self._begin(answer)
            return True
        return False

    def choose_sibling(self, row: int, step: int) -> None:
        """Show the next (+1) or the previous (-1) branch at `row`; nothing at the ends."""
        sibling = self._thread.sibling(row, step)
        if sibling is not None:
            with self._storing():
                self._thread.choose(sibling)
            self._show_path(row)

    def delete_message(self, row: int) -> bool:
        """Remove the message with all that follows it; a sibling takes its place."""
        if not self._is_free():
            return False
        with self._storing():
            gone = self._thread.delete(row)
            self._show_path(row)
            self.message_deleted.emit(gone)
            return True
        return False

    def undo_delete_message(self) -> bool:
        """Put back what `delete_message` took out last, while its chat is shown."""
        if not self._thread.can_put_back or not self._is_free():
            return False
        with self._storing():
            self._thread.put_back()
            self._show_path(0)
            return True
        return False

    def row_of(self, message_id: int) -> int | None:
        """Where a message stands in the path; None where it does not."""
        rows = (row for row, message in enumerate(self.path) if message.id == message_id)
        return next(rows, None)

    def tokens(self, row: int) -> Tokens:
        """The tokens of the answer at `row`, read when first requested."""
        return self.tokens_of(self.path[row])

    def everything(self) -> Tree:
        """All messages, of any branch."""
        return self._thread.tree

    def siblings(self, message: Message) -> list[Message]:
        """It and the other messages of its place, in order of creation."""
        return self._thread.tree.siblings(message)

    def tokens_of(self, message: Message) -> Tokens:
        """The tokens of an answer of this chat, read when first requested."""
        if (running := self.writers.running(message)) is not None:
            return running.tokens
        try:
            return self._thread.tokens(message)
        except StoreError as error:
            self.problem.emit(Problem(error.kind, str(error)))
            return Tokens()

    def set_title(self, title: str) -> None:
        """Rename the chat, once it is kept."""
        if self.chat_id is not None:
            self.details.set_title(title)
            self.stored.emit()

    def close(self) -> None:
        """Save everything; answers under way end here."""
        self.details.save_draft()
        self.writers.close()

    def _is_free(self) -> bool:
        if self.details.served:
            text = tr(
                "logged request from {served}; copy the chat to continue",
                served=self.details.served,
            )
            self.problem.emit(Problem("ReadOnly", text, "copy"))
            return False
        if self.busy:
            self.problem.emit(
                Problem("Busy", tr("an answer is being generated; stop it first"), "stop")
            )
        return not self.busy

    def _may_send(self) -> bool:
        if not self._is_free():
            return False
        if not self._answering.possible:
            self.problem.emit(Problem("NoModel", tr("no model is open; open one first"), "open"))
        return self._answering.possible

    @contextmanager
    def _storing(self) -> Iterator[None]:
        """End the block where the store fails, and emit the problem."""
        try:
            yield
        except ChatGone as error:
            self._leave_deleted()
            step = tr("your message is kept; send it again to start a new chat")
            self.problem.emit(Problem(error.kind, f"{error}; {step}"))
        except (StoreError, BadSetting) as error:
            self.problem.emit(Problem(error.kind, str(error)))

    def _send(self, text: str, by: Writer | None) -> None:
        details, begins = self.details, self.chat_id is None
        details.set_draft(text)  # kept where what follows fails
        pictures, documents = self.attached.pictures, self.documents.documents
        with self._thread.together():
            if begins:
                question = self._thread.begin(text, *details.settings, pictures, documents)
                kept = {"edits": self.edits.value, "vectors": self.edits.fresh}
                self.store.update(question.chat, touch=False, tools=details.tools, **kept)
            else:
                question = self._thread.add_question(text, pictures, documents)
            answer = self._thread.answer_to(question, *self.edits.now(by is None))
        if begins:
            details.title = title_of(text, (*pictures, *documents))
            details.changed.emit()
        details.clear_draft(was_new=begins)
        self._show_attached()
        self._append(question)
        self._append(answer.message)
        self._begin(answer, by=by)

    def _unsend(self, question: Message, row: int) -> None:
        """Remove the question; its text and pictures go back to the draft."""
        draft = "\n".join(filter(None, (question.text, self.details.draft)))
        pictures = (*question.pictures, *self.attached.pictures)
        documents = (*question.documents, *self.documents.documents)
        chat = self.chat_id if row else None
        with self.store.together():
            self.store.pictures.set_draft(chat, pictures)
            self.store.documents.set_draft(chat, documents)
            if row:
                self._thread.unsend(row)
            else:
                self.store.delete(question.chat)
        if row:
            self._show_path(row)
            self._show_attached()
        else:
            self._preferences.update(draft=draft)
            self.open(None)
        self.details.set_draft(draft)
        self.details.draft_changed.emit(draft)
        self.stored.emit()

    def _edit_answer(self, message: Message, row: int, text: str) -> bool:
        above, model = self._thread.parent(message), message.model
        with self._storing():
            self._thread.add("assistant", above, text, finish="edited", model=model)
            self._show_path(row)
            return True
        return False

    def _answer(
        self,
        question: Message,
        row: int,
        edits: EditSet | None = None,
        most: int | None = None,
        by: Writer | None = None,
    ) -> bool:
        """Answer a question, shown at `row`, with the chat's edits or these; False if it fails."""
        with self._storing():
            now = (
                self.edits.now(by is None) if edits is None else (edits, self.edits.request(edits))
            )
            answer = self._thread.answer_to(question, *now)
            if row == len(self.path):
                self._append(answer.message)
            else:
                self._show_path(row)
            self._begin(answer, most, by)
            return True
        return False

    def _begin(self, answer: Answer, most: int | None = None, by: Writer | None = None) -> None:
        self._thread.keep_tokens(answer.message, None)
        now, by, value = self.details, by or self.writer, self._preferences.value
        is_kept = self.store.is_saved and value.kept_chats != 0 and by.own is None
        chat = str(answer.message.chat) if is_kept else None
        numbers, drafts = now.own if by.own is None else by.own, Speculation(value.speculation)
        manner = Manner(now.system, numbers, by.details, most, now.form, drafts, chat)
        answer.tools = now.tools if by.own is None else ()
        answer.again = lambda made: partial(self._request, made, manner)
        by.answering.begin(answer, answer.again(answer))
        self.stored.emit()

    def _answer_again(self, before: Answer) -> None:
        """Begin the answer that follows the calls of another one."""
        if self._rounds is None or before.again is None:
            return
        with self._storing():
            answer = self._rounds.next(before)
            answer.again = before.again
            if self.path and self.path[-1] is before.message:
                self._append(answer.message)
            self._answering.begin(answer, answer.again(answer))

    def _request(self, answer: Answer, manner: Manner, digests: Mapping[str, str]) -> Generate:
        tools = NO_TOOLS if self.tools is None else self.tools.offered(answer.message.id)
        answer.message.tools = tuple(tools.known)
        return manner.request(answer, tools, digests)

    def _append(self, message: Message) -> None:
        self._thread.append(message)
        self.message_added.emit(len(self.path) - 1)

    def _show_path(self, first: int) -> None:
        self._thread.follow()
        self.path_changed.emit(first)

    def _leave_deleted(self) -> None:
        """A new chat in place of one that is gone, with what was being typed there."""
        self._thread = Thread(self.store)
        self.open(None)
        self.stored.emit()

    def _show_attached(self) -> None:
        self.attached.show(self.chat_id)
        self.documents.show(self.chat_id)

    def _take_usual(self) -> None:
        """A chat that has not begun takes the model's system prompt."""
        if self.chat_id is None:
            self.details.take_usual()

    def _write(self, **fields: Any) -> bool:
        """Store details of the chat; False where there is none yet."""
        if self.chat_id is None:
            return False
        with self._storing():
            self.store.update(self.chat_id, touch=False, **fields)
        return True

    def _on_appended(self, answer: Answer, first: int) -> None:
        row = self._thread.row(answer.message)
        if row is not None:
            self.tokens_appended.emit(row, first)
            self.message_changed.emit(row)

    def _on_called(self, answer: Answer) -> None:
        row = self._thread.row(answer.message)
        if row is not None:
            self.message_changed.emit(row)

    def _on_ended(self, answer: Answer) -> None:
        row = self._thread.row(answer.message)
        if answer.message.chat == self.chat_id:
            self._thread.keep_tokens(answer.message, answer.tokens)
        if row is not None:
            self.message_changed.emit(row)
        self.stored.emit()
        if self.sends_next and not self.busy:
            self.set_sends_next(False)
            if answer.message.finish in ENDED_BY_ITSELF:
                self.send(self.details.draft)

    def _keep_next_as_draft(self, _: Problem) -> None:
        """Send nothing before a person has read the problem."""
        self.set_sends_next(False)
