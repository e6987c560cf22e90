"""A placement put into effect: the file is loaded so."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.client import EngineClient
from app.state.session import Session
from engine.settings import EngineOptions


class Applying(QObject):
    """`result` says in a sentence what came of it, `failed` whether that was nothing.

    `done` of `total` tells how far a move is; `total` is 0 until the engine has told it.
    """

    changed = Signal()
    moved = Signal()

    def __init__(
        self,
        client: EngineClient,
        session: Session,
        load: Callable[[Path, EngineOptions], None],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._client, self._session, self._load = client, session, load
        self._id: int | None = None
        self.done = self.total = 0
        self.result = ""
        self.failed = False

    @property
    def is_busy(self) -> bool:
        return self._id is not None

    def start(self, path: Path, options: EngineOptions, is_open: bool) -> None:
        """Load the file with its layers there."""
        self.result, self.failed, self.done, self.total = "", False, 0, 0
        self._load(path, options)

    def cancel(self) -> None:
        """Stop; the old placement stays."""
        if self._id is not None:
            self._client.cancel(self._id)

    def forget_result(self) -> None:
        """It is about a placement that is no longer shown."""
        self.result, self.failed = "", False
