"""Connections: how many there may be, and how long one may say nothing.

uvicorn waits for ever for the first byte of a connection; so ten seconds are given for the headers,
and where there are too many the one that has said nothing for longest makes room.
"""

import asyncio
from typing import Any

import h11
import msgspec
from uvicorn.protocols.http.h11_impl import H11Protocol

from app.serve.web.refusal import error_value, unavailable

MOST_CONNECTIONS = 256
HEADER_SECONDS = 10.0
HALF_SECONDS = 10.0  # that an answer may take to begin for a client that closed its writing half
KEPT_SECONDS = 5  # that a connection may idle between requests

_BODY = msgspec.json.encode(error_value(unavailable("too many connections")))
_TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 2\r\n"
    b"connection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 of one connection."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, "abort": transport.abort}
        if len(self.connections) > MOST_CONNECTIONS and not self._make_room():
            transport.write(_TOO_MANY)
            self._end()
            return
        self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif (
            self.conn.their_state is h11.IDLE and self.conn.trailing_data[0] and self._timer is None
        ):
            self._wait_for_headers()  # a further request has begun, and its headers may never end

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """The client closed its writing half, or has left, which looks the same. One that announced
        it (Connection: close) still gets its answer, if that begins within HALF_SECONDS.
        """
        if self.silent or self.conn.their_state is not h11.MUST_CLOSE:
            return None
        self.loop.call_later(HALF_SECONDS, self._end_unless_answered)
        return True

    def _end_unless_answered(self) -> None:
        if self.cycle is not None and not self.cycle.response_started:
            self._end()

    @property
    def silent(self) -> bool:
        """True if no request is running on the connection."""
        return self.cycle is None or self.cycle.response_complete

    def _make_room(self) -> bool:
        """End the oldest connection that requests nothing; whether there is one."""
        others: Any = self.connections
        old = [c for c in others if c is not self and isinstance(c, BoundedProtocol) and c.silent]
        if not old:
            return False
        min(old, key=lambda connection: connection._since)._end()
        return True

    _since = 0.0

    def _wait_for_headers(self) -> None:
        self._since = self.loop.time()
        self._timer = self.loop.call_later(HEADER_SECONDS, self._end)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        self._stop_waiting()
        self.connections.discard(self)
        self.transport.close()
