"""Which pictures belong to which message or draft, and the removal of those that none uses."""

import logging
import sqlite3
from collections import defaultdict
from collections.abc import Sequence

from app.language import tr
from app.state.talk.disk.database import Database, StoreError
from app.state.talk.disk.picture_files import PictureFiles
from app.state.talk.disk.rows import text_of
from app.state.talk.message import Picture
from engine.protocol import PictureLimits

log = logging.getLogger("chats")

OF_DRAFT = "chat IS ? AND message IS NULL"
UNLIMITED = PictureLimits()


class PictureRows:
    """The rows of one database. A row is written only where its file is there, and a file removed
    only where no row names it, both under the database's lock: so no message names a picture that
    is gone, whatever other windows do.
    """

    def __init__(self, database: Database, files: PictureFiles) -> None:
        self._db, self.files = database, files
        self._released: set[str] = set()

    def write(
        self, connection: sqlite3.Connection, chat: int, message: int, pictures: Sequence[Picture]
    ) -> None:
        """Insert the pictures of a new message."""
        self._insert(connection, chat, message, pictures)

    def replace(self, chat: int, message: int, pictures: Sequence[Picture]) -> None:
        """Write the pictures of a message in place of those that it had."""
        with self._db.transaction() as connection:
            connection.execute("DELETE FROM pictures WHERE message = ?", (message,))
            self._insert(connection, chat, message, pictures)

    def of_chat(self, chat: int) -> dict[int, tuple[Picture, ...]]:
        """Return the pictures of all messages of a chat, in order."""
        found: dict[int, list[Picture]] = defaultdict(list)
        where = "chat = ? AND message IS NOT NULL"
        for row in self._db.read(f"SELECT * FROM pictures WHERE {where} ORDER BY place", chat):
            found[row["message"]].append(_picture(row))
        return {message: tuple(pictures) for message, pictures in found.items()}

    def of_draft(self, chat: int | None) -> tuple[Picture, ...]:
        """Return the pictures of a chat's draft; with None, those of the new chat."""
        query = f"SELECT * FROM pictures WHERE {OF_DRAFT} ORDER BY place"
        return tuple(map(_picture, self._db.read(query, chat)))

    def set_draft(self, chat: int | None, pictures: Sequence[Picture]) -> None:
        """Replace those of a draft."""
        with self._db.transaction() as connection:
            before = {picture.hash for picture in self.of_draft(chat)}
            connection.execute(f"DELETE FROM pictures WHERE {OF_DRAFT}", (chat,))
            self._insert(connection, chat, None, pictures)
        self._released |= before

    def keep(self, data: bytes, name: str) -> str:
        """A picture's file; it goes with the store where no row has come to name it. Its hash.

        Raises PictureError.
        """
        hash = self.files.keep(data, name)
        self._released.add(hash)
        return hash

    def add_to_draft(
        self, chat: int | None, data: bytes, name: str, limits: PictureLimits = UNLIMITED
    ) -> Picture:
        """Keep a picture as the last of a draft. Raises PictureError."""
        picture = Picture(self.keep(data, name), name, limits)
        with self._db.transaction() as connection:
            if not self.files.has(picture.hash):  # removed meanwhile, by another window
                self.files.keep(data, name)
            self._insert(connection, chat, None, [picture], len(self.of_draft(chat)))
        return picture

    def release(self, chat: int) -> None:
        """A chat was deleted; its pictures may go when the store is closed."""
        for hash in self.forget(chat):
            if self.files.has(hash):
                self.files.touch(hash)  # until then its messages may be put back

    def forget(self, chat: int) -> set[str]:
        """A chat goes for good, and the returned pictures with it unless others have them."""
        rows = self._db.read("SELECT DISTINCT hash FROM pictures WHERE chat = ?", chat)
        hashes = {hash for (hash,) in rows}
        self._released |= hashes
        return hashes

    def collect(self, idle: float | None = None) -> None:
        """Remove files that nothing uses any more: of what was released here, or where `idle` is
        given all that nobody touched for so many seconds. What fails goes another time.
        """
        try:
            names = self._released if idle is None else set(self.files.idle(idle))
            for name in sorted(names):
                with self._db.transaction():
                    if not self._db.read("SELECT 1 FROM pictures WHERE hash = ? LIMIT 1", name):
                        self.files.remove(name)
            self._released -= names
        except (OSError, StoreError) as error:
            log.warning("pictures that no chat uses are still kept: %s", error)

    def _insert(
        self,
        connection: sqlite3.Connection,
        chat: int | None,
        message: int | None,
        pictures: Sequence[Picture],
        first: int = 0,
    ) -> None:
        for place, picture in enumerate(pictures, first):
            if not self.files.has(picture.hash):
                raise StoreError(
                    self.files.folder,
                    tr("{name} is no longer there; add it again", name=picture.name),
                )
            limits = picture.limits
            connection.execute(
                "INSERT INTO pictures VALUES (?, ?, ?, ?, ?, ?, ?)",
                (chat, message, place, picture.hash, picture.name, limits.rows, limits.one_view),
            )


def _picture(row: sqlite3.Row) -> Picture:
    most = row["most"]
    hash, name = text_of(row["hash"]), text_of(row["name"])
    known = most if isinstance(most, int) and most > 0 else None
    return Picture(hash, name, PictureLimits(known, bool(row["one_view"])))
