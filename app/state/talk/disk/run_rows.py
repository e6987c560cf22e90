"""Results of runs of the laboratory as JSON, in the database of chats; the oldest go."""

import time
from typing import NamedTuple

import msgspec

from app.state.talk.disk.database import Database
from app.state.talk.disk.rows import text_of
from engine.protocol import DatasetRecorded, FeaturesFound, PatchesMapped, QualityMeasured

RunResult = PatchesMapped | QualityMeasured | DatasetRecorded | FeaturesFound
MOST = 50 << 20
"""Characters of all results together."""
_WORDS = "SELECT id, message, token FROM runs WHERE message >= 0 AND token >= 0"
_INSERT = "INSERT INTO runs (made, model, title, data, message, token) VALUES (?, ?, ?, ?, ?, ?)"
_OLDEST = "DELETE FROM runs WHERE id = (SELECT min(id) FROM runs)"


class KeptRun(NamedTuple):
    """A run without its result; `made` is in seconds since the epoch. `word` is the message and the
    index of the token that it is about.
    """

    id: int
    made: float
    model: str
    title: str
    word: tuple[int, int] | None = None


class RunRows:
    """The rows of one database. All methods raise StoreError."""

    def __init__(self, database: Database, most: int = MOST) -> None:
        self._db, self._most = database, most

    def all(self) -> list[KeptRun]:
        """The runs, the newest first."""
        rows = self._db.read("SELECT id, made, model, title FROM runs ORDER BY id DESC")
        words = {int(r[0]): (int(r[1]), int(r[2])) for r in self._db.read(_WORDS)}
        return [
            KeptRun(int(r[0]), float(r[1]), text_of(r[2]), text_of(r[3]), words.get(int(r[0])))
            for r in rows
            if isinstance(r[1], float | int)
        ]

    def add(
        self, model: str, title: str, result: RunResult, word: tuple[int, int] | None = None
    ) -> int:
        """Keep a result, of a token of an answer or of none; its id. Older ones go where all are
        too large together.
        """
        data = msgspec.json.encode(result).decode()
        with self._db.transaction() as connection:
            made = (time.time(), model, title, data, *(word or (None, None)))
            number = connection.execute(_INSERT, made).lastrowid
            while self._size() > self._most and len(self.all()) > 1:
                connection.execute(_OLDEST)
        assert number is not None
        return number

    def read(self, number: int) -> RunResult | None:
        """A result; None where it is gone or damaged."""
        for (data,) in self._db.read("SELECT data FROM runs WHERE id = ?", number):
            try:
                found: RunResult = msgspec.json.decode(data, type=RunResult)
            except (msgspec.MsgspecError, TypeError, ValueError):
                return None
            return found
        return None

    def of_word(self, message: int, token: int) -> list[int]:
        """The runs about a token, the newest first."""
        which = "SELECT id FROM runs WHERE message = ? AND token = ? ORDER BY id DESC"
        return [int(number) for (number,) in self._db.read(which, message, token)]

    def of_model(self, model: str, kind: str) -> list[int]:
        """The runs about a model whose results are of a kind, the newest first."""
        which = "SELECT id FROM runs WHERE model = ? AND data LIKE ? ORDER BY id DESC"
        return [int(number) for (number,) in self._db.read(which, model, f'{{"type":"{kind}"%')]

    def newest(self, model: str, kind: str, has: str) -> RunResult | None:
        """The newest result of a kind about a model in which the field `has` is not empty; to be
        called in another thread: a result may have megabytes.
        """
        with self._db.elsewhere() as database:
            rows = RunRows(database)
            read = (rows.read(number) for number in rows.of_model(model, kind))
            return next((one for one in read if getattr(one, has, None)), None)

    def remove(self, number: int) -> None:
        """Delete a run."""
        with self._db.transaction() as connection:
            connection.execute("DELETE FROM runs WHERE id = ?", (number,))

    def _size(self) -> int:
        return int(self._db.read("SELECT coalesce(sum(length(data)), 0) FROM runs")[0][0])
