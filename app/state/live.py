"""Live data from inside a running answer: visible views register the data they need."""

from typing import Any

import msgspec
from PySide6.QtCore import QObject

from app.client import EngineClient, PendingRequest
from engine.protocol import Live


class LiveWanted(QObject):
    """`value` goes with each new request; a change reaches those under way."""

    def __init__(self, client: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self._running: list[PendingRequest] = []
        self.value = Live()

    def want(self, **fields: Any) -> None:
        """Change fields of `Live`; each view has its own."""
        wanted = msgspec.structs.replace(self.value, **fields)
        if wanted != self.value:
            self.value = wanted
            for request in self._running:
                request.look(wanted)

    def follow(self, request: PendingRequest) -> None:
        """Have an answer report what is wanted until it ends."""
        self._running.append(request)
        request.ended.connect(lambda _: self._running.remove(request))
