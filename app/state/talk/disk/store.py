"""Chats on disk: what the database's rows mean."""

import logging
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from app.language import tr
from app.state.presets import OwnSampling
from app.state.talk.disk.database import CANDIDATES, Database, StoreError
from app.state.talk.disk.document_rows import DocumentRows
from app.state.talk.disk.picture_files import PictureFiles
from app.state.talk.disk.picture_rows import PictureRows
from app.state.talk.disk.rows import (
    MESSAGE,
    UNTITLED,
    ChatRow,
    chat_of,
    message_of,
    own_as_json,
    text_of,
)
from app.state.talk.disk.run_rows import RunRows
from app.state.talk.disk.vector_rows import VectorRows
from app.state.talk.edits import encoded
from app.state.talk.message import Message
from app.state.talk.tokens import TokenData, Tokens
from app.state.talk.tree import Tree
from engine.errors import CutawayError
from engine.protocol import AnswerForm

SNIPPET = 60  # characters around what was found
SHORTEST = 3  # letters of a word that the index knows
PURGE_AFTER = 24 * 3600.0  # seconds that a deleted chat outlives the program, should it crash
# Messages that one transaction deletes, so that others may write in between.
DELETED_AT_ONCE = 500
# A message is younger than what it answers, so that children go before their parents.
NEWEST = "SELECT id FROM messages WHERE chat = ? ORDER BY id DESC LIMIT ?"
MOVE_BELOW = """WITH RECURSIVE below (id) AS (SELECT ? UNION
    SELECT m.id FROM messages m JOIN below b ON m.parent = b.id)
    UPDATE messages SET chat = ? WHERE id IN below"""
WITH_MESSAGES = "SET chat = ? WHERE message IN (SELECT id FROM messages WHERE chat = ?)"

__all__ = ["UNTITLED", "ChatGone", "ChatRow", "ChatStore", "StoreError"]

log = logging.getLogger("chats")


class ChatGone(StoreError):
    """A chat that was deleted meanwhile, by another window."""

    def __init__(self) -> None:
        CutawayError.__init__(self, tr("this chat was deleted in another window"))


def tokens_of(data: bytes) -> Tokens:
    """Stored tokens; none where they cannot be read."""
    try:
        return Tokens.of(msgspec.msgpack.decode(data, type=TokenData))
    except (msgspec.MsgspecError, ValueError, TypeError):
        return Tokens()


class ChatStore:
    """Reads and writes chats. For the window's thread; all methods raise StoreError, but those
    that open and close: what was deleted may also go another time.

    `notice` is one line if the file had to be set aside or cannot be used; `pictures` and
    `documents` are those of messages and drafts, `vectors` those of edits.
    """

    def __init__(self, source: Path | Database) -> None:
        self.db = source if isinstance(source, Database) else Database(source)
        self.notice = self.db.notice
        self.pictures = PictureRows(self.db, PictureFiles(self.db.pictures))
        self.documents = DocumentRows(self.db)
        self.vectors = VectorRows(self.db)
        self.runs = RunRows(self.db)
        self._deleted: list[int] = []
        self._purge("deleted < ?", time.time() - PURGE_AFTER)
        if isinstance(source, Path):
            self.pictures.collect(PURGE_AFTER)

    @property
    def is_saved(self) -> bool:
        """False where chats are gone when the window closes."""
        return self.db.path is not None

    def close(self) -> None:
        """Remove for good what was deleted. Harmless when done twice."""
        self._purge_deleted()
        self.db.close()

    @contextmanager
    def elsewhere(self) -> Iterator["ChatStore"]:
        """The same chats for another thread, to be called there."""
        with self.db.elsewhere() as database:
            store = ChatStore(database)
            try:
                yield store
            finally:
                store._purge_deleted()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Do all changes made inside wholly or not at all."""
        with self.db.transaction():
            yield

    def version(self) -> int:
        """A number that changes when another window has written."""
        return int(self.db.read("PRAGMA data_version")[0][0])

    def chats(self, query: str = "") -> list[ChatRow]:
        """Chats, the one changed last first; with `query` those that have all its words, and a tag
        that begins as each word with # does.
        """
        rows = self.db.read("SELECT * FROM chats WHERE deleted IS NULL ORDER BY changed DESC, id")
        terms = query.casefold().split()
        words = [word for word in terms if not word.startswith("#")]
        tags = tuple(word[1:] for word in terms if word.startswith("#"))
        chats = [chat for chat in map(chat_of, rows) if _has_tags(chat, tags)]
        if not words:
            return chats
        snippets = self.find(words)
        found = []
        for chat in chats:
            snippet, hit = snippets.get(chat.id, ("", None))
            named = f"{chat.title} {chat.folder}".casefold()
            if hit is not None or all(word in named for word in words):
                found.append(replace(chat, snippet=snippet, hit=hit))
        return found

    def chat(self, chat_id: int) -> ChatRow | None:
        """One chat, None if there is none of that id."""
        rows = self.db.read("SELECT * FROM chats WHERE id = ? AND deleted IS NULL", chat_id)
        return chat_of(rows[0]) if rows else None

    def chat_of(self, message_id: int) -> int | None:
        """The chat that has a message; None if there is no such message any more."""
        rows = self.db.read(
            "SELECT chats.id FROM messages JOIN chats ON chats.id = messages.chat"
            " WHERE messages.id = ? AND chats.deleted IS NULL",
            message_id,
        )
        return int(rows[0][0]) if rows else None

    def create(
        self,
        title: str = UNTITLED,
        system: str = "",
        sampling: OwnSampling | None = None,
        hidden: bool = False,
        form: AnswerForm | None = None,
        served: str = "",
        folder: str = "",
        tags: Sequence[str] = (),
    ) -> int:
        """A new chat; its id. A hidden one counts as deleted until `undelete`, one that is `served`
        is a program's request.
        """
        now = time.time()
        with self.db.transaction():
            chat_id = self._insert(
                "INSERT INTO chats (title, created, changed, model, system, sampling, draft,"
                " deleted, form, served, folder, tags)"
                " VALUES (?, ?, ?, '', ?, ?, '', ?, ?, ?, ?, ?)",
                (
                    *(title, now, now, system, own_as_json(sampling or OwnSampling())),
                    *(now if hidden else None, _json(form) if form else "", served),
                    *(folder, " ".join(tags)),
                ),
            )
        if hidden:
            self._deleted.append(chat_id)
        return chat_id

    def update(self, chat_id: int, touch: bool = True, **fields: Any) -> None:
        """Change title, model, system, sampling, form, draft, pinned, folder, tags, edits with
        their new `vectors`; `touch` moves the chat to the top.
        """
        if touch:
            fields["changed"] = time.time()
        with self.db.transaction() as connection:
            self.vectors.write(connection, fields.pop("vectors", {}))
            if "edits" in fields:
                fields["edits"] = encoded(fields["edits"])
            if "sampling" in fields:
                fields["sampling"] = own_as_json(fields["sampling"])
            if "tools" in fields:
                fields["tools"] = _json(fields["tools"]) if fields["tools"] else ""
            if "form" in fields:
                fields["form"] = _json(fields["form"]) if fields["form"] else ""
            if "tags" in fields:
                fields["tags"] = " ".join(fields["tags"])
            self._set("chats", chat_id, fields)

    def prune_served(self, keep: int) -> None:
        """Delete for good the chats that are programs' requests, but for the last ones."""
        newest = "SELECT id FROM chats WHERE served <> '' ORDER BY id DESC LIMIT ?"
        self._purge(f"served <> '' AND id NOT IN ({newest})", keep)

    def delete(self, chat_id: int) -> None:
        """Hide a chat until `undelete`, or for good when the store is closed."""
        self._set("chats", chat_id, {"deleted": time.time()})
        self._deleted.append(chat_id)

    def undelete(self, chat_id: int) -> None:
        """Bring a deleted chat back."""
        self._set("chats", chat_id, {"deleted": None})
        self._deleted.remove(chat_id)

    def clear_draft_files(self, chat_id: int | None) -> None:
        """Nothing is attached to the draft any more."""
        with self.db.transaction():
            self.pictures.set_draft(chat_id, ())
            self.documents.set_draft(chat_id, ())

    def tree(self, chat_id: int) -> Tree:
        """All messages of a chat."""
        query = f"SELECT {MESSAGE}, chosen FROM messages WHERE chat = ? ORDER BY id"
        rows = self.db.read(query, chat_id)
        pictures = self.pictures.of_chat(chat_id)
        documents = self.documents.of_chat(chat_id)
        messages = [
            message_of(row, pictures.get(row[0], ()), documents.get(row[0], ())) for row in rows
        ]
        known = {message.id for message in messages}
        for message in messages:  # a parent is older; one that is damaged would lead in a circle
            if message.parent not in known or message.parent >= message.id:
                message.parent = None
        chosen: dict[int | None, int] = {r[0]: r[-1] for r in rows if r[-1]}
        for (head,) in self.db.read("SELECT head FROM chats WHERE id = ?", chat_id):
            if head is not None:
                chosen[None] = head
        parents = {message.id: message.parent for message in messages}
        chosen = {at: to for at, to in chosen.items() if parents.get(to, -1) == at}
        return Tree(messages, chosen)

    def add(self, message: Message) -> None:
        """Write a new message as the chosen one of its parent, and set its `id`; the chat moves
        to the top. Raises ChatGone.
        """
        with self.db.transaction():
            if self.chat(message.chat) is None:
                raise ChatGone
            number = self._insert_message(message)
            self._choose(message, number)
            self.update(message.chat)
        message.id = number

    def add_all(self, new: Sequence[tuple[Message, Message | None, Tokens | None]]) -> None:
        """Write messages below their parents, which may be among them, with their tokens, at
        once. Their ids are set; none is chosen.
        """
        with self.db.transaction():
            for message, parent, tokens in new:
                message.parent = parent.id if parent is not None else None
                message.id = self._insert_message(message)
                if tokens:
                    self.save_tokens(message, tokens)

    def save(self, message: Message) -> None:
        """Write what may have changed in a message."""
        self._set(
            "messages",
            message.id,
            {
                "text": message.text,
                "model": message.model,
                "finish": message.finish,
                "problem": message.problem,
                "stats": _json(message.stats) if message.stats else None,
                "n_tokens": message.n_tokens,
                "calls": _json(message.calls) if message.calls else "",
                "tools": _json(message.tools) if message.tools else "",
                "edits": encoded(message.edits),
            },
        )

    def finish(self, message: Message, tokens: Tokens) -> None:
        """Write an answer that has ended; nothing where its chat was deleted for good meanwhile."""
        with self.db.transaction():
            if not self.db.read("SELECT 1 FROM messages WHERE id = ?", message.id):
                return
            self.save(message)
            if message.calls:
                self.pictures.replace(message.chat, message.id, message.pictures)
            self.save_tokens(message, tokens)
            self.update(message.chat, model=message.model)

    def choose(self, message: Message) -> None:
        """Remember that the path goes through this message."""
        self._choose(message, message.id)

    def remove(self, message: Message, following: Message | None = None) -> int:
        """Delete a message and all below it; `following` takes its place in the path.

        They move to a deleted chat, whose id is returned for `restore`: to take thousands out of
        the search's index takes a while.
        """
        with self.db.transaction() as connection:
            gone = self.create(hidden=True)
            connection.execute("UPDATE messages SET parent = NULL WHERE id = ?", (message.id,))
            connection.execute(MOVE_BELOW, (message.id, gone))
            for table in ("pictures", "attachments"):
                connection.execute(f"UPDATE {table} {WITH_MESSAGES}", (gone, gone))
            self.pictures.release(gone)
            if following is not None:
                self._choose(following, following.id)
        return gone

    def restore(self, message: Message, hidden: int, chosen: bool) -> None:
        """Undo `remove`, whose deleted chat is `hidden`; `chosen` says that the path went through
        the message. Raises ChatGone, and StoreError where it was deleted for good meanwhile.
        """
        with self.db.transaction() as connection:
            if self.chat(message.chat) is None:
                raise ChatGone
            for table in ("messages", "pictures", "attachments"):
                move = f"UPDATE {table} SET chat = ? WHERE chat = ?"
                connection.execute(move, (message.chat, hidden))
            put = "UPDATE messages SET parent = ? WHERE id = ? AND chat = ?"
            back = connection.execute(put, (message.parent, message.id, message.chat))
            if not back.rowcount:
                text = tr("the deleted messages are no longer in the file")
                raise StoreError(self.db.path, text)
            if chosen:
                self._choose(message, message.id)
            connection.execute("DELETE FROM chats WHERE id = ?", (hidden,))
        self._deleted.remove(hidden)

    def save_tokens(self, message: Message, tokens: Tokens) -> None:
        """Write the tokens of an answer."""
        data = msgspec.msgpack.encode(tokens.data())
        with self.db.transaction() as connection:
            connection.execute("REPLACE INTO tokens VALUES (?, ?)", (message.id, data))

    def tokens(self, message: Message) -> Tokens:
        """The tokens of an answer; none where none were kept, or not readably."""
        rows = self.db.read("SELECT data FROM tokens WHERE message = ?", message.id)
        return next((tokens_of(data) for (data,) in rows), Tokens())

    def find(self, words: list[str]) -> dict[int, tuple[str, int]]:
        """Chats that have a message with all words: the newest such message's snippet and id."""
        known = [word for word in words if len(word) >= SHORTEST] if self.db.has_search else []
        query = (
            "SELECT m.chat, m.text, m.id FROM messages m JOIN chats c ON c.id = m.chat"
            " WHERE c.deleted IS NULL"
        )
        values = []
        if known:
            query += f" AND m.id IN ({CANDIDATES})"
            values.append(" ".join('"' + word.replace('"', '""') + '"' for word in known))
        found: dict[int, tuple[str, int]] = {}
        for chat, text, number in self.db.read(f"{query} ORDER BY m.id DESC", *values):
            text = text_of(text)
            if chat not in found and all(word in text.casefold() for word in words):
                found[chat] = _snippet(text, words[0]), number
        return found

    def _choose(self, message: Message, number: int) -> None:
        if message.parent is None:
            self._set("chats", message.chat, {"head": number})
        else:
            self._set("messages", message.parent, {"chosen": number})

    def _purge_deleted(self) -> None:
        if self._deleted:
            marks = ", ".join(map(str, self._deleted))
            self._deleted.clear()
            self._purge(f"deleted IS NOT NULL AND id IN ({marks})")
        self.pictures.collect()
        try:
            self.documents.collect()
            self.vectors.collect()
        except StoreError as error:
            log.warning("texts of deleted documents are still in the file: %s", error)

    def _purge(self, condition: str, *values: object) -> None:
        """Delete chats for good, some messages at a time, so that others may write in between.

        What cannot be deleted now goes another time: it does not keep the window from opening.
        """
        try:
            for (chat,) in self.db.read(f"SELECT id FROM chats WHERE {condition}", *values):
                self.pictures.forget(chat)
                self.documents.release()
                left = True
                while left:
                    with self.db.transaction() as connection:
                        rows = connection.execute(NEWEST, (chat, DELETED_AT_ONCE)).fetchall()
                        connection.executemany("DELETE FROM messages WHERE id = ?", rows)
                        left = bool(rows)
                with self.db.transaction() as connection:
                    connection.execute("DELETE FROM chats WHERE id = ?", (chat,))
        except StoreError as error:
            log.warning("deleted chats are still in the file: %s", error)

    def _insert_message(self, message: Message) -> int:
        number = self._insert(*_insertion(message))
        with self.db.transaction() as connection:
            self.pictures.write(connection, message.chat, number, message.pictures)
            self.documents.write(connection, message.chat, number, message.documents)
        return number

    def _insert(self, statement: str, values: tuple[object, ...]) -> int:
        with self.db.transaction() as connection:
            number = connection.execute(statement, values).lastrowid
        assert number is not None
        return number

    def _set(self, table: str, row: int, fields: dict[str, Any]) -> None:
        names = ", ".join(f"{name} = ?" for name in fields)
        with self.db.transaction() as connection:
            connection.execute(f"UPDATE {table} SET {names} WHERE id = ?", (*fields.values(), row))


def _has_tags(chat: ChatRow, beginnings: tuple[str, ...]) -> bool:
    """True if each is the beginning of one of the chat's tags."""
    tags = [tag.casefold() for tag in chat.tags]
    return all(any(tag.startswith(begin) for tag in tags) for begin in beginnings)


def _insertion(message: Message) -> tuple[str, tuple[object, ...]]:
    return (
        "INSERT INTO messages (chat, parent, role, text, created, model, finish, problem,"
        " stats, n_tokens, calls, tools, edits) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            message.chat,
            message.parent,
            message.role,
            message.text,
            message.created,
            message.model,
            message.finish,
            message.problem,
            _json(message.stats) if message.stats else None,
            message.n_tokens,
            _json(message.calls) if message.calls else "",
            _json(message.tools) if message.tools else "",
            encoded(message.edits),
        ),
    )


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _snippet(text: str, word: str) -> str:
    """The line's worth of text around a word, with an ellipsis where something is cut."""
    at = max(0, text.casefold().find(word))
    start = max(0, at - SNIPPET // 3)
    end = start + SNIPPET
    piece = re.sub(r"\s+", " ", text[start:end]).strip()
    return f"{'…' if start else ''}{piece}{'…' if end < len(text) else ''}"
