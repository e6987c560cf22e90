"""A checksum of each row that a person's words are in, in the database of chats: SQLite itself
checks pages and indexes, and one changed bit in a text harms neither.

Temporary triggers, which each connection adds, write the sums into the table `sums` (name of the
table, key of the row, CRC-32). Values are summed as bytes; real numbers are left out, since their
text differs between versions of SQLite. A plus sign takes a key's type away, without which the key
of `sums` would be converted and not looked up.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

COLUMNS = {
    "chats": "id title model system sampling draft head form served pinned folder tags tools edits",
    "messages": "id role text model finish problem stats n_tokens chosen calls tools edits",
    "tokens": "message data",
    "texts": "hash text",
    "vectors": "hash data",
    "runs": "id model title data",
}
"""The columns that are summed; the first one is the key. SQLite's check compares those of an index
with it: a message's chat and parent, which change for thousands at once.
"""
TABLE = "CREATE TABLE sums (name TEXT, row, sum INTEGER, PRIMARY KEY (name, row)) WITHOUT ROWID"
NOUNS = {
    "chats": "chat",
    "messages": "message",
    "tokens": "the tokens of message",
    "texts": "document",
    "vectors": "the directions of an edit",
    "runs": "the result of run",
}
SHOWN = 3  # rows that a sentence names


class ChangedRow(NamedTuple):
    """A row that is not as it was stored; `title` is that of its chat, if it is of one."""

    table: str
    key: int | str
    title: str = ""

    def __str__(self) -> str:
        return f"{NOUNS[self.table]} {self.key}" + f" of the chat {self.title!r}" * bool(self.title)


def checksum(*values: bytes | None) -> int:
    """The CRC-32 of values and their lengths."""
    total = 0
    for value in values:
        total = crc32(b"-" if value is None else b"%d:" % len(value), total)
        total = crc32(value or b"", total)
    return total


def sum_all(connection: sqlite3.Connection) -> None:
    """Write the sums of all rows that are there."""
    connection.create_function("checksum", -1, checksum, deterministic=True)
    for table in COLUMNS:
        connection.execute(_put_sums(table))


def sum_from_now(connection: sqlite3.Connection) -> None:
    """Write the sum of each row that this connection will write."""
    connection.create_function("checksum", -1, checksum, deterministic=True)
    for table, columns in COLUMNS.items():
        key, *rest = columns.split()
        put = f"INSERT OR REPLACE INTO sums VALUES ('{table}', new.{key}, {_sum(table, 'new')})"
        drop = f"DELETE FROM sums WHERE name = '{table}' AND row = +old.{key}"
        for name, event, action in (
            ("added", "INSERT", put),
            ("changed", f"UPDATE OF {', '.join(rest)}", put),
            ("removed", "DELETE", drop),
        ):
            connection.execute(
                f"CREATE TEMP TRIGGER {table}_{name} AFTER {event} ON main.{table}"
                f" BEGIN {action}; END"
            )


def find_changed(path: Path) -> str:
    """Name the rows of a file that are not as they were stored; "" if all are. Raises
    `sqlite3.Error`.
    """
    with closing(_opened(path, "ro")) as connection:
        found = list(_changed(connection))
    return f"{_named(found)}: not as stored" if found else ""


def restore_changed(path: Path) -> str:
    """Write the text of a changed message again where the index of search has it; leave the other
    rows as they are, with new sums. Returns a sentence. Raises `sqlite3.Error`.
    """
    kept = []
    with closing(_opened(path, "rw")) as connection:
        connection.execute("BEGIN IMMEDIATE")
        found = list(_changed(connection))
        for row in found:
            if row.table != "messages" or not _restored(connection, row):
                kept.append(row)
                connection.execute(
                    f"{_put_sums(row.table)} WHERE {_key(row.table)} = ?", (row.key,)
                )
        connection.execute("COMMIT")
    left = f"; unchanged: {_named(kept)}" if kept else ""
    return f"restored {len(found) - len(kept)} of {len(found)} changed rows of {path}{left}"


def _restored(connection: sqlite3.Connection, row: ChangedRow) -> bool:
    """True if the text that the index of search has is the one that was summed."""
    connection.execute("SAVEPOINT trial")
    with suppress(sqlite3.Error):  # a Python without FTS5
        connection.execute(
            "UPDATE messages SET text = (SELECT text FROM search WHERE rowid = messages.id)"
            " WHERE id = ? AND id IN (SELECT rowid FROM search)",
            (row.key,),
        )
        if not any(_changed_in(connection, "messages", row.key)):
            return True
    connection.execute("ROLLBACK TO trial")
    return False


def _opened(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=2, isolation_level=None
    )
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    connection.create_function("checksum", -1, checksum, deterministic=True)
    return connection


def _changed(connection: sqlite3.Connection) -> Iterator[ChangedRow]:
    """Rows whose sum is wrong or missing; none in a file of a version without sums."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'sums'").fetchone():
        for table in COLUMNS:
            yield from _changed_in(connection, table)


def _changed_in(
    connection: sqlite3.Connection, table: str, key: int | str | None = None
) -> Iterator[ChangedRow]:
    query = (
        f"SELECT {_key(table)} FROM {table} LEFT JOIN sums"
        f" ON sums.name = '{table}' AND sums.row = +{_key(table)}"
        f" WHERE sums.sum IS NOT {_sum(table, table)} AND ifnull(? = {_key(table)}, 1)"
    )
    title = {
        "chats": "SELECT title FROM chats WHERE id = ?",
        "messages": "SELECT title FROM chats WHERE id = (SELECT chat FROM messages WHERE id = ?)",
    }.get(table)
    for (found,) in connection.execute(query, (key,)).fetchall():
        titles = connection.execute(title, (found,)).fetchone() if title else None
        yield ChangedRow(table, found, str(titles[0]) if titles else "")


def _named(rows: Sequence[ChangedRow]) -> str:
    more = f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else ""
    return ", ".join(map(str, rows[:SHOWN])) + more


def _key(table: str) -> str:
    return f"{table}.{COLUMNS[table].split()[0]}"


def _put_sums(table: str) -> str:
    row = f"'{table}', {_key(table)}, {_sum(table, table)}"
    return f"INSERT OR REPLACE INTO sums SELECT {row} FROM {table}"


def _sum(table: str, row: str) -> str:
    """An expression; values are bytes, so that those that are no text any more are summed, too."""
    values = (f"CAST({row}.{column} AS BLOB)" for column in COLUMNS[table].split())
    return f"checksum({', '.join(values)})"
