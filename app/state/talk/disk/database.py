"""The file of chats: opened, brought up to date, set aside when it is no database any more."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from app.checks.row_sums import TABLE as SUMS
from app.checks.row_sums import sum_all, sum_from_now
from app.language import tr
from engine.errors import CutawayError

BUSY_S = 2.0  # how long another window's write is waited for
CHECKED_BYTES = 64 << 20  # larger files are not read whole at the start
INDEXED = 1 << 16  # characters of a message that the search index takes; 64 Ki take it some 20 ms

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE chats (
            id INTEGER PRIMARY KEY, title TEXT NOT NULL, created REAL NOT NULL,
            changed REAL NOT NULL, model TEXT NOT NULL, system TEXT NOT NULL,
            sampling TEXT NOT NULL, draft TEXT NOT NULL, head INTEGER, deleted REAL)""",
        """CREATE TABLE messages (
            id INTEGER PRIMARY KEY, chat INTEGER NOT NULL REFERENCES chats ON DELETE CASCADE,
            parent INTEGER REFERENCES messages ON DELETE CASCADE, role TEXT NOT NULL,
            text TEXT NOT NULL, created REAL NOT NULL, model TEXT NOT NULL, finish TEXT NOT NULL,
            problem TEXT NOT NULL, stats TEXT, n_tokens INTEGER NOT NULL, chosen INTEGER)""",
        "CREATE INDEX messages_by_chat ON messages (chat)",
        "CREATE INDEX messages_by_parent ON messages (parent)",
        """CREATE TABLE tokens (
            message INTEGER PRIMARY KEY REFERENCES messages ON DELETE CASCADE,
            data BLOB NOT NULL)""",
    ),
    (  # a picture of a message, or where that is NULL of the draft; that of no chat yet has neither
        """CREATE TABLE pictures (
            chat INTEGER REFERENCES chats ON DELETE CASCADE,
            message INTEGER REFERENCES messages ON DELETE CASCADE,
            place INTEGER NOT NULL, hash TEXT NOT NULL, name TEXT NOT NULL)""",
        "CREATE INDEX pictures_by_chat ON pictures (chat)",
        "CREATE INDEX pictures_by_message ON pictures (message)",
        "CREATE INDEX pictures_by_hash ON pictures (hash)",
    ),
    (  # what a model may make of it; `most` embeddings, NULL: as many as it likes
        "ALTER TABLE pictures ADD COLUMN most INTEGER",
        "ALTER TABLE pictures ADD COLUMN one_view INTEGER NOT NULL DEFAULT 0",
    ),
    # what answers must be like, as JSON; empty: anything
    ("ALTER TABLE chats ADD COLUMN form TEXT NOT NULL DEFAULT ''",),
    # the program whose request it is; empty: a person's own
    ("ALTER TABLE chats ADD COLUMN served TEXT NOT NULL DEFAULT ''",),
    (  # a document of a message, or of a draft, as in `pictures`; its text under its SHA-256
        "CREATE TABLE texts (hash TEXT PRIMARY KEY, text TEXT NOT NULL)",
        """CREATE TABLE attachments (
            chat INTEGER REFERENCES chats ON DELETE CASCADE,
            message INTEGER REFERENCES messages ON DELETE CASCADE,
            place INTEGER NOT NULL, hash TEXT NOT NULL, name TEXT NOT NULL,
            kind TEXT NOT NULL, size INTEGER NOT NULL)""",
        "CREATE INDEX attachments_by_chat ON attachments (chat)",
        "CREATE INDEX attachments_by_message ON attachments (message)",
        "CREATE INDEX attachments_by_hash ON attachments (hash)",
    ),
    (  # where the list shows it; empty: in no folder. `tags` are words with spaces between them
        "ALTER TABLE chats ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE chats ADD COLUMN folder TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE chats ADD COLUMN tags TEXT NOT NULL DEFAULT ''",
    ),
    (  # calls of tools with their results, and the tools of the prompt, as JSON; names for a chat
        "ALTER TABLE messages ADD COLUMN calls TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE messages ADD COLUMN tools TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE chats ADD COLUMN tools TEXT NOT NULL DEFAULT ''",
    ),
    (  # edits of the next answer, and those that an answer was written with, as JSON
        "ALTER TABLE chats ADD COLUMN edits TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE messages ADD COLUMN edits TEXT NOT NULL DEFAULT ''",
        "CREATE TABLE vectors (hash TEXT PRIMARY KEY, data BLOB NOT NULL)",
    ),
    (  # results of the laboratory's runs, as JSON
        """CREATE TABLE runs (
            id INTEGER PRIMARY KEY, made REAL NOT NULL, model TEXT NOT NULL,
            title TEXT NOT NULL, data TEXT NOT NULL)""",
    ),
    (  # the token of an answer that a run is about
        "ALTER TABLE runs ADD COLUMN message INTEGER REFERENCES messages ON DELETE SET NULL",
        "ALTER TABLE runs ADD COLUMN token INTEGER",
        "CREATE INDEX runs_by_word ON runs (message, token)",
    ),
    (SUMS,),
)
VERSION = len(MIGRATIONS)

# The triggers are temporary, so that a Python without FTS5 can still write the tables.
SEARCH = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS search USING fts5(text, tokenize = 'trigram')",
    f"CREATE INDEX IF NOT EXISTS long_messages ON messages (id) WHERE length(text) > {INDEXED}",
    f"""CREATE TEMP TRIGGER said AFTER INSERT ON main.messages BEGIN
        INSERT INTO search (rowid, text) VALUES (new.id, substr(new.text, 1, {INDEXED})); END""",
    f"""CREATE TEMP TRIGGER ended AFTER UPDATE OF finish ON main.messages
        WHEN new.finish <> '' BEGIN
        UPDATE search SET text = substr(new.text, 1, {INDEXED}) WHERE rowid = new.id; END""",
    """CREATE TEMP TRIGGER gone AFTER DELETE ON main.messages BEGIN
        DELETE FROM search WHERE rowid = old.id; END""",
)
CANDIDATES = (  # messages that may hold what is searched for
    "SELECT rowid FROM search WHERE search MATCH ?"
    f" UNION SELECT id FROM messages WHERE length(text) > {INDEXED}"
)
NEXT_STEPS = {
    "locked": tr("another program is writing to them; try again later"),
    "full": tr("the disk is full; make room on it"),
    "readonly": tr("they are read-only; change the permissions of the file and its folder"),
}


class StoreError(CutawayError):
    """The chats could not be read or written."""

    def __init__(self, path: object, error: object) -> None:
        self.path = str(path)
        known = (step for word, step in NEXT_STEPS.items() if word in str(error))
        super().__init__(tr("the chats in {path}: {next}", path=path, next=next(known, str(error))))


def readable(data: bytes) -> str:
    """A text column; bytes that are not UTF-8, as damage leaves them, are replaced."""
    return data.decode("utf-8", "replace")


class Database:
    """One connection. `notice` says what had to be done to open the file, `pictures` is the folder
    beside it.

    Several windows may have the same file open: WAL lets them read while one writes, and a write
    waits BUSY_S for another's. Another thread writes through `elsewhere`.
    """

    def __init__(self, path: Path) -> None:
        self.path: Path | None = path
        self.pictures = path.with_name("pictures")
        self.notice = ""
        self._passing: TemporaryDirectory[str] | None = None
        self._lock = threading.RLock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and not path.is_file():  # SQLite would wait for a pipe for ever
                raise OSError(tr("it is not a file; `cutaway doctor --repair` sets it aside"))
            self._set_aside_lone_wal(path)
            path.touch(mode=0o600)  # nobody else's to read
            self.connection = self._open(path)
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # of a damaged schema's names
            if "disk" in str(error) and (read_only := self._read_only(path)) is not None:
                self.connection = read_only
            elif "locked" in str(error) or isinstance(error, sqlite3.OperationalError):
                self.connection = self._in_memory(str(error))
            else:
                self.connection = self._open_anew(path, error)
        except OSError as error:
            self.connection = self._in_memory(str(error))
        self.has_search = self._add_search()

    def close(self) -> None:
        """Harmless when done twice."""
        self.connection.close()
        if self._passing is not None:
            self._passing.cleanup()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Do all changes made inside wholly or not at all; one inside another belongs to it.

        Raises StoreError.
        """
        with self._lock:
            if self.connection.in_transaction:
                yield self.connection
                return
            try:
                self.connection.execute("BEGIN IMMEDIATE")
                try:
                    yield self.connection
                    self.connection.execute("COMMIT")
                except BaseException:
                    if self.connection.in_transaction:  # some failures have ended it already
                        self.connection.execute("ROLLBACK")
                    raise
            except (sqlite3.Error, OverflowError, UnicodeEncodeError) as error:
                raise StoreError(self.path or "memory", error) from error

    @contextmanager
    def elsewhere(self) -> Iterator["Database"]:
        """The same chats for another thread, to be called there. Raises StoreError."""
        if self.path is None:
            yield self  # memory has but one connection, which `transaction` guards
            return
        other = Database(self.path)
        try:
            if other.path is None:
                raise StoreError(self.path, other.notice)
            yield other
        finally:
            other.close()

    def read(self, query: str, *values: object) -> list[sqlite3.Row]:
        """All rows. Raises StoreError."""
        try:
            self.connection.text_factory = str  # in C, until bytes are not UTF-8
            try:
                return self.connection.execute(query, values).fetchall()
            except (sqlite3.OperationalError, UnicodeDecodeError):
                self.connection.text_factory = readable
                return self.connection.execute(query, values).fetchall()
            finally:
                self.connection.text_factory = readable
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise StoreError(self.path or "memory", error) from error

    def _open(self, path: Path | str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
        )
        try:
            connection.row_factory = sqlite3.Row
            connection.text_factory = readable
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if tables and _version(connection) == 0:  # before anything is written
                raise sqlite3.OperationalError(tr("it is a database of another program"))
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA secure_delete = ON")
            if isinstance(path, Path) and path.stat().st_size <= CHECKED_BYTES:
                (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
                if verdict != "ok":
                    raise sqlite3.DatabaseError(verdict)
            self._migrate(connection)
            _check_columns(connection)
            sum_from_now(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _read_only(self, path: Path) -> sqlite3.Connection | None:
        """The chats to be read alone, where the disk is full: the log of changes cannot be written
        then. None where that fails as well.
        """
        try:
            connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=ro&immutable=1",
                uri=True,
                isolation_level=None,
                check_same_thread=False,
            )
            connection.row_factory = sqlite3.Row
            connection.text_factory = readable
            _check_columns(connection)
        except (sqlite3.Error, UnicodeDecodeError):
            return None
        self.notice = tr(
            "the disk of {path} is full: chats can be read, but nothing is saved", path=path
        )
        return connection

    def _set_aside_lone_wal(self, path: Path) -> None:
        """A log of changes whose database is gone or empty holds chats: SQLite would delete it."""
        wal = path.with_name(f"{path.name}-wal")
        gone = not path.exists() or path.stat().st_size == 0
        if gone and wal.exists() and wal.stat().st_size > 0:
            aside = wal.with_name(f"{wal.name}.left-{time.strftime('%Y%m%d-%H%M%S')}")
            wal.rename(aside)
            self.notice = tr(
                "{path} was lost or empty; its last changes are kept in {aside}",
                path=path,
                aside=aside,
            )

    def _migrate(self, connection: sqlite3.Connection) -> None:
        if _version(connection) == VERSION:
            return
        connection.execute("BEGIN IMMEDIATE")
        version = _version(connection)  # once more: another window may have been quicker
        if version > VERSION:
            connection.execute("ROLLBACK")
            raise sqlite3.OperationalError(
                tr(
                    "made by a newer Cutaway (format {version}, this one reads {version2})",
                    version=version,
                    version2=VERSION,
                )
            )
        for statements in MIGRATIONS[version:]:
            for statement in statements:
                connection.execute(statement)
        sum_all(connection)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")

    def _open_anew(self, path: Path, error: Exception) -> sqlite3.Connection:
        aside = path.with_name(f"{path.name}.corrupt-{time.strftime('%Y%m%d-%H%M%S')}")
        try:
            path.rename(aside)
            for ending in ("-wal", "-shm"):
                beside = path.with_name(path.name + ending)
                if beside.exists():
                    beside.rename(aside.with_name(aside.name + ending))
            connection = self._open(path)
        except (OSError, sqlite3.Error) as failure:
            return self._in_memory(str(failure))
        self.notice = tr(
            "the chats could not be read ({error}); the file is kept as {aside}",
            error=error,
            aside=aside,
        )
        return connection

    def _in_memory(self, problem: str) -> sqlite3.Connection:
        self.notice = tr(
            "chats are not saved in this session: {path}: {problem}",
            path=self.path,
            problem=problem,
        )
        self.path = None
        self._passing = TemporaryDirectory(prefix="cutaway-")
        self.pictures = Path(self._passing.name)
        return self._open(":memory:")

    def _add_search(self) -> bool:
        try:
            for statement in SEARCH:
                self.connection.execute(statement)
            (missing,) = self.connection.execute(
                "SELECT (SELECT count(*) FROM messages) <> (SELECT count(*) FROM search)"
            ).fetchone()
            if missing:
                self.connection.execute("DELETE FROM search")
                self.connection.execute(
                    "INSERT INTO search (rowid, text)"
                    f" SELECT id, substr(text, 1, {INDEXED}) FROM messages"
                )
        except sqlite3.Error:
            for name in ("said", "ended", "gone"):
                self.connection.execute(f"DROP TRIGGER IF EXISTS temp.{name}")
            return False
        return True


COLUMNS = {
    "chats": "id title created changed model system sampling draft head deleted form served pinned"
    " folder tags tools edits",
    "messages": "id chat parent role text created model finish problem stats n_tokens chosen calls"
    " tools edits",
    "tokens": "message data",
    "pictures": "chat message place hash name most one_view",
    "texts": "hash text",
    "vectors": "hash data",
    "runs": "id made model title data message token",
    "attachments": "chat message place hash name kind size",
    "sums": "name row sum",
}


def _check_columns(connection: sqlite3.Connection) -> None:
    """Raises `DatabaseError` for a schema that is damaged."""
    for table, names in COLUMNS.items():
        try:
            connection.execute(f"SELECT {', '.join(names.split())} FROM {table} LIMIT 0")
        except sqlite3.OperationalError as error:
            raise sqlite3.DatabaseError(str(error)) from None


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)
