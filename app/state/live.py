"""Live data from inside a running answer: visible views register the data they need."""

from typing import Any

import msgspec
from PySide6.QtCore import QObject

from app.client import EngineClient
from engine.protocol import Live


class LiveWanted(QObject):
    """`value` goes with each answer that is asked for; a change reaches those under way."""

    def __init__(self, client: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self._running: list[int] = []
        self.value = Live()

    def want(self, **fields: Any) -> None:
        """Change fields of `Live`; each view has its own."""
        wanted = msgspec.structs.replace(self.value, **fields)
        if wanted != self.value:
            self.value = wanted
            for request_id in self._running:
                self._client.look(request_id, wanted)

    def begun(self, request_id: int) -> None:
        """The answer with this request is under way."""
        self._running.append(request_id)

    def ended(self, request_id: int | None) -> None:
        """It is not any more."""
        self._running = [one for one in self._running if one != request_id]
