"""The messages of one chat as they are kept: their tree, the path shown through it, tokens."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from app.documents.document import Document
from app.state.presets import OwnSampling
from app.state.talk.answer import Answer, branched, continued
from app.state.talk.disk.store import ChatStore
from app.state.talk.edits import NO_EDITS, EditSet
from app.state.talk.message import Message, Picture, Role, title_of
from app.state.talk.tokens import Tokens
from app.state.talk.tree import Branch, Tree
from engine.protocol import Alternative, AnswerForm, Edit


class Removed(NamedTuple):
    """Keeps what was deleted; `hidden` is the deleted chat that has it."""

    branch: Branch
    hidden: int


def take_out(store: ChatStore, tree: Tree, message: Message) -> Removed:
    """Remove a message with all that follows it. Raises StoreError; then nothing has changed."""
    hidden = store.remove(message, tree.beside(message))
    return Removed(tree.remove(message), hidden)


def put_back(store: ChatStore, tree: Tree, gone: Removed) -> None:
    """Undo `take_out`. Raises StoreError; then nothing has changed."""
    store.restore(gone.branch.first, gone.hidden, gone.branch.in_path)
    tree.put_back(gone.branch)


class Thread:
    """One chat's messages in memory and in the store. `chat_id` is None until `begin`.

    Every change is written before it is made here. Where the store raises StoreError, nothing has
    changed. `path` is as it was until `follow`, so that views can find what is new.
    """

    def __init__(self, store: ChatStore, chat_id: int | None = None, tree: Tree | None = None):
        self._store, self.chat_id, self.tree = store, chat_id, tree or Tree()
        self.path = self.tree.path()
        self._tokens: dict[int, Tokens] = {}
        self._removed: Removed | None = None
        self._new: list[Message] | None = None

    @contextmanager
    def together(self) -> Iterator[None]:
        """Keep all messages that are added inside, or none of them."""
        chat_id, self._new = self.chat_id, []
        try:
            with self._store.together():
                yield
            for message in self._new:
                self.tree.add(message)
        except BaseException:
            self.chat_id = chat_id
            raise
        finally:
            self._new = None

    def begin(
        self,
        text: str,
        system: str,
        sampling: OwnSampling,
        form: AnswerForm | None = None,
        pictures: tuple[Picture, ...] = (),
        documents: tuple[Document, ...] = (),
    ) -> Message:
        """Keep the chat from here on, with its first question, which also gives its title."""
        with self._store.together():
            title = title_of(text, (*pictures, *documents))
            chat_id = self._store.create(title, system, sampling, form=form)
            attached: dict[str, Any] = {"pictures": pictures, "documents": documents}
            question = Message(0, chat_id, None, "user", text, created=time.time(), **attached)
            self._store.add(question)
            self._store.clear_draft_files(None)
        self.chat_id = chat_id
        self._take(question)
        return question

    def add_question(
        self, text: str, pictures: tuple[Picture, ...], documents: tuple[Document, ...] = ()
    ) -> Message:
        """A question at the end of the path; the draft's pictures and documents are now its."""
        with self._store.together():
            last = self.path[-1] if self.path else None
            attached: dict[str, Any] = {"pictures": pictures, "documents": documents}
            question = self._make("user", last, text, **attached)
            self._store.add(question)
            self._store.clear_draft_files(self.chat_id)
        self._take(question)
        return question

    def add(self, role: Role, parent: Message | None, text: str, **fields: Any) -> Message:
        """A message below another; it becomes the chosen one there."""
        message = self._make(role, parent, text, **fields)
        self._store.add(message)
        self._take(message)
        return message

    def _take(self, message: Message) -> None:
        if self._new is None:
            self.tree.add(message)
        else:
            self._new.append(message)

    def answer_to(
        self, question: Message, edits: EditSet = NO_EDITS, sent: Sequence[Edit] = ()
    ) -> Answer:
        """A new answer below a question; `sent` is what its edits are for the engine."""
        message = self.add("assistant", question, "", edits=edits)
        return Answer(message, Tokens(), self.tree, by_ids=False, edits=sent)

    def go_on(self, message: Message, by_ids: bool, sent: Sequence[Edit] = ()) -> Answer:
        """An answer that goes on where this one ended; beside it where something follows it."""
        tokens, before = self.tokens(message), message.stats
        by_ids = by_ids and tokens.begin == 0 and len(tokens) > 0
        text, tokens = continued(message, tokens, by_ids)
        if self.tree.has_children(message):
            message = self.add("assistant", self.parent(message), text, edits=message.edits)
            tokens = tokens.first(len(tokens))
        else:
            message.text, message.finish, message.problem = text, "", ""
        return Answer(message, tokens, self.tree, by_ids, before, sent)

    def branch(
        self,
        message: Message,
        index: int,
        other: Alternative,
        by_ids: bool,
        sent: Sequence[Edit] = (),
    ) -> Answer:
        """An answer beside this one that takes another token at `index`."""
        tokens = self.tokens(message)
        by_ids = by_ids and tokens.begin == 0
        text, tokens = branched(message, tokens, index, other, by_ids)
        sibling = self.add("assistant", self.parent(message), text, edits=message.edits)
        return Answer(sibling, tokens, self.tree, by_ids, edits=sent)

    def _make(self, role: Role, parent: Message | None, text: str, **fields: Any) -> Message:
        assert self.chat_id is not None
        above = parent.id if parent is not None else None
        return Message(0, self.chat_id, above, role, text, created=time.time(), **fields)

    def append(self, message: Message) -> None:
        """A message that was added below the last one goes to the end of the path."""
        message.place, message.siblings = 0, 1
        self.path.append(message)

    def follow(self) -> None:
        """Take the path that is chosen now."""
        self.path = self.tree.path()

    def choose(self, message: Message) -> None:
        """Have the path go through a message; shown even where it cannot be stored."""
        self.tree.choose(message)
        self._store.choose(message)

    def delete(self, row: int) -> int:
        """Remove a message with all that follows it; how many they were."""
        self._removed = take_out(self._store, self.tree, self.path[row])
        return len(self._removed.branch.messages)

    def unsend(self, row: int) -> None:
        """Remove a question that was not sent yet, for good."""
        take_out(self._store, self.tree, self.path[row])

    @property
    def can_put_back(self) -> bool:
        """True if a message was deleted since this chat was opened."""
        return self._removed is not None

    def put_back(self) -> None:
        """Undo the last `delete`."""
        assert self._removed is not None
        put_back(self._store, self.tree, self._removed)
        self._removed = None

    def parent(self, message: Message) -> Message | None:
        """The message that this one answers or follows."""
        return None if message.parent is None else self.tree.messages[message.parent]

    def sibling(self, row: int, step: int) -> Message | None:
        """The next (+1) or the previous (-1) message beside the one at `row`; None at the ends."""
        siblings = self.tree.siblings(self.path[row])
        place = siblings.index(self.path[row]) + step
        return siblings[place] if 0 <= place < len(siblings) else None

    def row(self, message: Message) -> int | None:
        """Where a message stands in the path; None where it does not."""
        rows: Iterable[int] = range(len(self.path) - 1, -1, -1)  # most often the last
        return next((row for row in rows if self.path[row] is message), None)

    def tokens(self, message: Message) -> Tokens:
        """The tokens of an answer, read when first requested."""
        if message.id not in self._tokens:
            self._tokens[message.id] = self._store.tokens(message)
        return self._tokens[message.id]

    def keep_tokens(self, message: Message, tokens: Tokens | None) -> None:
        """Cache the tokens of a finished answer; None forgets them, as it is continued."""
        if tokens is None:
            self._tokens.pop(message.id, None)
        else:
            self._tokens[message.id] = tokens
