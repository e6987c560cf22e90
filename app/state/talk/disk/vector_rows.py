"""Directions that edits of chats and answers add, each stored once under the hash of its bytes."""

import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

import msgspec
import numpy as np
from msgspec.structs import replace

from app.language import tr
from app.state.talk.disk.database import Database, StoreError
from app.state.talk.edits import EditSet
from engine.errors import BadSetting
from engine.gguf.control_vector import Directions, random_like
from engine.protocol import Edit

LARGEST = 64 << 20
"""The most bytes of one set of directions, as of a step of the engine."""
_HASH = re.compile(r'"directions":"([0-9a-f]{64})"')
_USES = "SELECT edits FROM {} WHERE edits LIKE '%directions%'"
NONE_NEW: Mapping[str, bytes] = {}


def pack(directions: Directions) -> tuple[str, bytes]:
    """Directions as the hash and the bytes that are stored. Raises `BadSetting`."""
    rows = {layer: values.astype("<f4").tobytes() for layer, values in sorted(directions.items())}
    data = msgspec.msgpack.encode(rows)
    unpack(data)
    return sha256(data).hexdigest(), data


def unpack(data: bytes) -> Directions:
    """The reverse of `pack`, for bytes from anywhere. Raises `BadSetting`."""
    if len(data) > LARGEST:
        raise BadSetting(
            "directions", f"{len(data) >> 20} MiB", tr("at most {mib} MiB", mib=LARGEST >> 20)
        )
    try:
        rows = msgspec.msgpack.decode(data, type=dict[int, bytes])
        found = {layer: np.frombuffer(row, "<f4").astype(np.float32) for layer, row in rows.items()}
    except (msgspec.MsgspecError, ValueError) as error:
        raise BadSetting(
            "directions", str(error), tr("a vector of float32 for each layer")
        ) from None
    if not found or len({len(row) for row in found.values()}) > 1:
        raise BadSetting("directions", f"{len(found)} rows", tr("rows of one length"))
    if not all(len(row) and np.isfinite(row).all() for row in found.values()):
        raise BadSetting("directions", "a row", tr("finite numbers"))
    return found


class VectorRows:
    """The rows of one database. All methods raise StoreError."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def write(self, connection: sqlite3.Connection, vectors: Mapping[str, bytes]) -> None:
        """Insert packed directions by their hashes; those that are there stay."""
        connection.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", vectors.items())

    def packed(
        self, hashes: Iterable[str], new: Mapping[str, bytes] = NONE_NEW
    ) -> dict[str, bytes]:
        """Return directions by their hashes, of the database or of those not stored yet."""
        found = {}
        for one in sorted(hashes):
            rows = self._db.read("SELECT data FROM vectors WHERE hash = ?", one)
            data = bytes(rows[0][0]) if rows and isinstance(rows[0][0], bytes) else new.get(one)
            if data is None or sha256(data).hexdigest() != one:
                raise StoreError(
                    self._db.path or "memory", tr("the directions of an edit are gone")
                )
            found[one] = data
        return found

    def request(self, edits: EditSet, new: Mapping[str, bytes] = NONE_NEW) -> list[Edit]:
        """The edits of a request to the engine. Raises also `BadSetting`."""
        known = {h: unpack(data) for h, data in self.packed(edits.directions, new).items()}
        if edits.seed is not None:
            known = {h: random_like(rows, edits.seed) for h, rows in known.items()}
        made = []
        for number, one in enumerate(edits.edits):
            rows = known.get(one.directions, {})
            made += [
                replace(edit, layers=[layer], vector=rows[layer].astype("<f4").tobytes())
                for edit in edits.spans(number)
                for layer in edit.layers
                if layer in rows
            ]
            if not one.directions:
                made += edits.spans(number)
        return made

    def collect(self) -> None:
        """Delete the directions that no chat and no message has any more."""
        if not self._db.read("SELECT 1 FROM vectors LIMIT 1"):
            return
        with self._db.transaction() as connection:
            texts = [
                row[0] for t in ("chats", "messages") for row in self._db.read(_USES.format(t))
            ]
            used = {one for text in texts for one in _HASH.findall(str(text))}
            gone = _others(connection, used)
            connection.executemany("DELETE FROM vectors WHERE hash = ?", gone)


def _others(connection: sqlite3.Connection, used: set[str]) -> Sequence[tuple[str]]:
    rows = connection.execute("SELECT hash FROM vectors").fetchall()
    return [(row[0],) for row in rows if row[0] not in used]
