"""Which documents belong to which message or draft. A text is stored once, under its hash."""

import sqlite3
from collections import defaultdict
from collections.abc import Sequence

from app.documents.document import KINDS, Document, plain_name
from app.state.talk.disk.database import Database
from app.state.talk.disk.rows import text_of

OF_DRAFT = "chat IS ? AND message IS NULL"
ROWS = "SELECT a.*, t.text FROM attachments a JOIN texts t ON t.hash = a.hash"


class DocumentRows:
    """The rows of one database. All methods raise StoreError."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._released = False

    def of_chat(self, chat: int) -> dict[int, tuple[Document, ...]]:
        """Return the documents of all messages of a chat, in order."""
        found: dict[int, list[Document]] = defaultdict(list)
        query = f"{ROWS} WHERE a.chat = ? AND a.message IS NOT NULL ORDER BY a.place"
        for row in self._db.read(query, chat):
            found[row["message"]].append(_document(row))
        return {message: tuple(documents) for message, documents in found.items()}

    def of_draft(self, chat: int | None) -> tuple[Document, ...]:
        """Return the documents of a chat's draft; with None, those of the new chat."""
        rows = self._db.read(f"{ROWS} WHERE a.{OF_DRAFT} ORDER BY a.place", chat)
        return tuple(map(_document, rows))

    def set_draft(self, chat: int | None, documents: Sequence[Document]) -> None:
        """Replace those of a draft."""
        with self._db.transaction() as connection:
            gone = connection.execute(f"DELETE FROM attachments WHERE {OF_DRAFT}", (chat,))
            self._released |= gone.rowcount > 0
            self.write(connection, chat, None, documents)

    def write(
        self,
        connection: sqlite3.Connection,
        chat: int | None,
        message: int | None,
        documents: Sequence[Document],
    ) -> None:
        """Insert the documents of a new message, or those of a draft."""
        for place, document in enumerate(documents):
            connection.execute(
                "INSERT OR IGNORE INTO texts VALUES (?, ?)", (document.hash, document.text)
            )
            connection.execute(
                "INSERT INTO attachments VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    *(chat, message, place, document.hash),
                    *(document.name, document.kind, document.size),
                ),
            )

    def release(self) -> None:
        """Messages with documents may be about to go."""
        self._released = True

    def collect(self) -> None:
        """Delete what was released, where no message or draft has it any more."""
        if not self._released:
            return
        self._released = False
        with self._db.transaction() as connection:
            connection.execute("DELETE FROM texts WHERE hash NOT IN (SELECT hash FROM attachments)")


def _document(row: sqlite3.Row) -> Document:
    kind = next((kind for kind in KINDS if kind == row["kind"]), KINDS[0])
    size = row["size"] if isinstance(row["size"], int) else 0
    return Document(plain_name(text_of(row["name"])), kind, text_of(row["text"]), size)
