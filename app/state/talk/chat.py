"""The chat that is open: the messages of its active path, and what a person can do with them."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from app.state.limits import Limits
from app.state.preferences import PreferencesState
from app.state.problem import Problem
from app.state.session import Session
from app.state.talk.answer import Answer, branched, continued
from app.state.talk.answering import Answering
from app.state.talk.context import ContextUse, context_use
from app.state.talk.message import Message, Role, title_of
from app.state.talk.removed import Removed, put_back, take_out
from app.state.talk.store import UNTITLED, ChatGone, ChatStore, StoreError
from app.state.talk.tokens import Tokens
from app.state.talk.tree import Tree
from engine.protocol import Sampling

DRAFT_MS = 500


class ChatState(QObject):
    """One chat. Rows are positions in `path`; all changes go through its methods.

    An answer goes on when another chat is opened, and is saved where it belongs. A question asked
    while the model loads waits for it; after a crash it restarts the engine. Methods that ask the
    engine return whether they could, with `problem` where not.
    """

    opened = Signal()  # another chat, or a new one
    path_changed = Signal(int)  # rows from this one on are other messages now (0: another chat)
    message_added = Signal(int)  # row, at the end
    message_changed = Signal(int)  # row; while answering at most once a frame
    tokens_appended = Signal(int, int)  # row, first index in tokens(row) that is new or longer
    busy_changed = Signal(bool)
    details_changed = Signal()  # title, system prompt, sampling, limits
    draft_changed = Signal(str)  # when not by set_draft: another chat, or it was sent
    message_deleted = Signal(int)  # how many with it; to be undone until `opened`
    found = Signal(object, object)  # row that was searched for and the words, or None
    stored = Signal()  # the list of chats may look different
    problem = Signal(object)  # Problem of something the person just asked for

    def __init__(
        self,
        store: ChatStore,
        session: Session,
        preferences: PreferencesState,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._store, self._session, self._preferences = store, session, preferences
        self.chat_id: int | None = None
        self.title, self.system, self.draft = UNTITLED, "", ""
        self.sampling = Sampling()
        self.path: list[Message] = []
        self._removed: Removed | None = None
        self._tree = Tree()
        self._kept_tokens: dict[int, Tokens] = {}
        self._answering = Answering(store, session, self)
        self._answering.appended.connect(self._on_appended)
        self._answering.ended.connect(self._on_ended)
        self._answering.busy_changed.connect(self.busy_changed)
        self._answering.problem.connect(self.problem)
        self._draft_timer = QTimer(self, singleShot=True, interval=DRAFT_MS)
        self._draft_timer.timeout.connect(self._save_draft)
        session.changed.connect(self._take_usual)
        self.open(None)

    @property
    def busy(self) -> bool:
        """Whether an answer is being written, in this chat or another."""
        return self._answering.current is not None

    @property
    def answering(self) -> int | None:
        """The row of the answer under way, None if it is not in the path shown."""
        running = self._answering.current
        return self._row(running.message) if running is not None else None

    @property
    def context(self) -> ContextUse:
        """How the messages shown fill the context of the open model."""
        model = self._session.model
        return context_use(self.path, self.system, model.n_ctx if model is not None else 0)

    def open(self, chat_id: int | None) -> None:
        """Show a chat; None is a new one, kept from its first message on."""
        self._save_draft()
        try:
            chat = self._store.chat(chat_id) if chat_id is not None else None
            tree = self._store.tree(chat.id) if chat is not None else Tree()
        except StoreError as error:
            self.problem.emit(Problem(error.kind, str(error)))
            return
        self._kept_tokens.clear()
        self._removed = None
        if chat is None:
            self.chat_id, self.title = None, UNTITLED
            self.draft = self._preferences.value.draft
        else:
            self.chat_id, self.title, self.draft = chat.id, chat.title, chat.draft
            self.system, self.sampling = chat.system, chat.sampling
        running = self._answering.current
        shown_already = running is not None and running.message.chat == self.chat_id
        self._tree = running.tree if running is not None and shown_already else tree
        self._take_usual()
        self.details_changed.emit()
        self.draft_changed.emit(self.draft)
        self._show_path(0)
        self.opened.emit()

    def open_at(self, chat_id: int, message_id: int | None, words: list[str]) -> None:
        """Show a chat at the message in which words were found."""
        if chat_id != self.chat_id:
            self.open(chat_id)
        message = self._tree.messages.get(message_id or 0)
        if message is not None and chat_id == self.chat_id:
            if message not in self.path:
                self._tree.show(message)
                self._show_path(0)
            self.found.emit(self._row(message), words)

    def send(self, text: str) -> bool:
        """Ask a question at the end of the path."""
        return bool(text.strip()) and self._may_ask() and self._attempt(self._send, text)

    def stop(self) -> None:
        """End the answer under way; what there is of it stays."""
        self._answering.stop()

    def regenerate(self, row: int) -> bool:
        """Another answer beside the one at `row`, or an answer to the question there."""
        question = row if self.path[row].role == "user" else row - 1
        return self._may_ask() and self._attempt(self._answer, self.path[question], question + 1)

    def edit_and_resend(self, row: int, text: str) -> bool:
        """A branch: another question with its answer; of an answer, another text."""
        message = self.path[row]
        if message.role == "assistant":
            return self._attempt(self._edit_answer, message, row, text)
        return bool(text.strip()) and self._may_ask() and self._attempt(self._ask_anew, row, text)

    def continue_answer(self, row: int) -> bool:
        """Go on where the answer at `row` ended; beside it where something follows it."""
        return self._may_ask() and self._attempt(self._continue, self.path[row], row)

    def branch_from_token(self, row: int, index: int, alternative: int) -> bool:
        """A sibling that takes `tokens(row)[index].top[alternative]` there and goes on."""
        return self._may_ask() and self._attempt(self._branch, row, index, alternative)

    def choose_sibling(self, row: int, step: int) -> None:
        """Show the next (+1) or the previous (-1) branch at `row`; nothing at the ends."""
        siblings = self._tree.siblings(self.path[row])
        place = siblings.index(self.path[row]) + step
        if 0 <= place < len(siblings):
            self._tree.choose(siblings[place])
            self._attempt(self._store.choose, siblings[place])
            self._show_path(row)

    def delete_message(self, row: int) -> bool:
        """Remove the message with all that follows it; a sibling takes its place."""
        return self._is_free() and self._attempt(self._delete, row)

    def undo_delete_message(self) -> bool:
        """Put back what `delete_message` took out last, while its chat is shown."""
        return self._removed is not None and self._is_free() and self._attempt(self._put_back)

    def row_of(self, message_id: int) -> int | None:
        """Where a message stands in the path; None where it does not."""
        rows = (row for row, message in enumerate(self.path) if message.id == message_id)
        return next(rows, None)

    def tokens(self, row: int) -> Tokens:
        """The tokens of the answer at `row`, read when first asked for."""
        message, running = self.path[row], self._answering.current
        if running is not None and running.message is message:
            return running.tokens
        if message.id not in self._kept_tokens:
            try:
                self._kept_tokens[message.id] = self._store.tokens(message)
            except StoreError as error:
                self.problem.emit(Problem(error.kind, str(error)))
                return Tokens()
        return self._kept_tokens[message.id]

    def set_draft(self, text: str) -> None:
        """What is being typed; saved half a second later."""
        self.draft = text
        self._draft_timer.start()

    def set_system(self, text: str) -> None:
        """The system prompt from now on, also the usual one of this model."""
        self.system = text
        self._save_details(system=text)

    def set_sampling(self, sampling: Sampling) -> None:
        """How answers are drawn from now on, also the usual way of this model."""
        self.sampling = sampling
        self._save_details(sampling=sampling)

    @property
    def limits(self) -> Limits:
        """What ends answers, of all chats with the model."""
        return self._preferences.of_model(str(self._session.path or "")).limits or Limits()

    def set_limits(self, limits: Limits) -> None:
        """What ends answers from now on."""
        if self._session.path is not None:
            self._preferences.update_model(str(self._session.path), limits=limits)
            self.details_changed.emit()

    def set_title(self, title: str) -> None:
        """Rename the chat, once it is kept."""
        if self.chat_id is not None:
            self.title = title
            self._attempt(partial(self._store.update, self.chat_id, touch=False, title=title))
            self.details_changed.emit()
            self.stored.emit()

    def close(self) -> None:
        """Save everything; the answer under way ends here."""
        self._save_draft()
        self._answering.close()

    def _is_free(self) -> bool:
        if self.busy:
            text = "an answer is being written; stop it first"
            self.problem.emit(Problem("Busy", text, "stop"))
        return not self.busy

    def _may_ask(self) -> bool:
        if not self._is_free():
            return False
        if not self._answering.possible:
            self.problem.emit(Problem("NoModel", "no model is open; open one first", "open"))
        return self._answering.possible

    def _attempt(self, do: Callable[..., Any], *args: Any) -> bool:
        try:
            do(*args)
        except ChatGone as error:
            self._leave_deleted()
            step = "what you wrote is kept; send it again to begin a new chat"
            self.problem.emit(Problem(error.kind, f"{error}; {step}"))
            return False
        except StoreError as error:
            self.problem.emit(Problem(error.kind, str(error)))
            return False
        return True

    def _send(self, text: str) -> None:
        self.draft = text  # kept where what follows fails
        if self.chat_id is None:
            question = self._begin_chat(text)
            self._preferences.update(draft="")  # what was typed before there was a chat
        else:
            question = self._add("user", self.path[-1] if self.path else None, text)
        self.draft = ""
        self._save_draft()
        self.draft_changed.emit("")
        self._append(question)
        self._answer(question, len(self.path))

    def _begin_chat(self, text: str) -> Message:
        """The first question; the chat is kept from here on."""
        title = title_of(text)
        with self._store.together():
            chat_id = self._store.create(title, self.system, self.sampling)
            question = Message(0, chat_id, None, "user", text, created=time.time())
            self._store.add(question)
        self.chat_id, self.title = chat_id, title
        self._tree.add(question)
        self.details_changed.emit()
        return question

    def _ask_anew(self, row: int, text: str) -> None:
        question = self._add("user", self._parent(self.path[row]), text)
        self._show_path(row)
        self._answer(question, row + 1)

    def _edit_answer(self, message: Message, row: int, text: str) -> None:
        self._add("assistant", self._parent(message), text, finish="edited", model=message.model)
        self._show_path(row)

    def _answer(self, question: Message, row: int) -> None:
        """A new answer below a question, shown at `row`."""
        answer = self._add("assistant", question, "")
        if row == len(self.path):
            self._append(answer)
        else:
            self._show_path(row)
        self._begin(Answer(answer, Tokens(), self._tree, by_ids=False))

    def _continue(self, message: Message, row: int) -> None:
        tokens, before = self.tokens(row), message.stats
        by_ids = self._same_model(message) and tokens.begin == 0 and len(tokens) > 0
        text, tokens = continued(message, tokens, by_ids)
        if self._tree.has_children(message):
            message = self._add("assistant", self._parent(message), text)
            tokens = tokens.first(len(tokens))
            self._show_path(row)
        else:
            message.text, message.finish, message.problem = text, "", ""
        self._begin(Answer(message, tokens, self._tree, by_ids, before))

    def _branch(self, row: int, index: int, alternative: int) -> None:
        message, tokens = self.path[row], self.tokens(row)
        by_ids = self._same_model(message) and tokens.begin == 0
        text, tokens = branched(message, tokens, index, alternative, by_ids)
        sibling = self._add("assistant", self._parent(message), text)
        self._show_path(row)
        self._begin(Answer(sibling, tokens, self._tree, by_ids))

    def _delete(self, row: int) -> None:
        self._removed = take_out(self._store, self._tree, self.path[row])
        self._show_path(row)
        self.message_deleted.emit(len(self._removed.messages))

    def _put_back(self) -> None:
        assert self._removed is not None
        put_back(self._store, self._tree, self._removed)
        self._removed = None
        self._show_path(0)

    def _begin(self, answer: Answer) -> None:
        self._kept_tokens.pop(answer.message.id, None)
        self._answering.begin(answer, answer.request(self.system, self.sampling, self.limits))
        self.stored.emit()

    def _add(self, role: Role, parent: Message | None, text: str, **fields: Any) -> Message:
        assert self.chat_id is not None
        above = parent.id if parent is not None else None
        message = Message(0, self.chat_id, above, role, text, created=time.time(), **fields)
        self._store.add(message)
        self._tree.add(message)
        return message

    def _append(self, message: Message) -> None:
        message.place, message.siblings = 0, 1
        self.path.append(message)
        self.message_added.emit(len(self.path) - 1)

    def _show_path(self, first: int) -> None:
        self.path = self._tree.path()
        self.path_changed.emit(first)

    def _leave_deleted(self) -> None:
        """A new chat in place of one that is gone, with what was being typed there."""
        self.chat_id = None
        self.open(None)
        self.stored.emit()

    def _parent(self, message: Message) -> Message | None:
        return None if message.parent is None else self._tree.messages[message.parent]

    def _row(self, message: Message) -> int | None:
        rows = range(len(self.path) - 1, -1, -1)  # most often the last
        return next((row for row in rows if self.path[row] is message), None)

    def _same_model(self, message: Message) -> bool:
        return message.model == self._session.model_name

    def _take_usual(self) -> None:
        """A chat that has not begun takes the model's system prompt and sampling."""
        if self.chat_id is None:
            usual = self._preferences.of_model(str(self._session.path or ""))
            self.system, self.sampling = usual.system or "", usual.sampling or Sampling()
            self.details_changed.emit()

    def _save_details(self, **fields: Any) -> None:
        if self._session.path is not None:
            self._preferences.update_model(str(self._session.path), **fields)
        if self.chat_id is not None:
            self._attempt(partial(self._store.update, self.chat_id, touch=False, **fields))
        self.details_changed.emit()

    def _save_draft(self) -> None:
        self._draft_timer.stop()
        if self.chat_id is None:
            self._preferences.update(draft=self.draft)
        else:
            self._attempt(partial(self._store.update, self.chat_id, touch=False, draft=self.draft))

    def _on_appended(self, answer: Answer, first: int) -> None:
        row = self._row(answer.message)
        if row is not None:
            self.tokens_appended.emit(row, first)
            self.message_changed.emit(row)

    def _on_ended(self, answer: Answer) -> None:
        row = self._row(answer.message)
        if row is not None:
            self._kept_tokens[answer.message.id] = answer.tokens
            self.message_changed.emit(row)
        self.stored.emit()
