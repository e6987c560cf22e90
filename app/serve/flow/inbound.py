"""Queue of the engine's replies to related requests, until the client has read them."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from app.serve.web.refusal import Refusal, of_failed
from engine.protocol import Failed, Reply, Request

MOST_WAITING = 1024
"""Replies that wait for a reader who is slow: some are bytes on the way, and these are memory."""

Said = tuple[int, Reply]
"""What the engine says about one of several requests: its place among them, and the reply."""

Over = Callable[[Reply | Refusal], None]


class Sending(Protocol):
    """Where an `Inbound`'s requests go."""

    def send(self, inbound: "Inbound", request: Request[Any], place: int) -> int:
        """Ask the engine; the request's number."""

    def drop(self, number: int) -> None:
        """Have it end, and hear nothing more of it."""


class Inbound:
    """Replies to requests, until its block ends; then none is under way. `over` is told at once of
    each reply that ends a request, and of a failure that ends them all: whoever takes the replies
    may come to that much later.
    """

    def __init__(self, to: Sending, over: Over = lambda end: None) -> None:
        self._to, self._over = to, over
        self._open: dict[int, Request[Any]] = {}
        self._said: deque[Said] = deque()
        self._more = asyncio.Event()
        self._failure: Refusal | None = None
        self._listened = False
        self._n = 0

    def add(self, request: Request[Any], place: int | None = None) -> None:
        """Send one more, whose replies are told as of `place`: by default the next."""
        place = self._n if place is None else place
        self._n = max(self._n, place + 1)
        self._open[self._to.send(self, request, place)] = request

    async def batch(self) -> list[Said]:
        """All that was said since the last call, at least one reply; nothing once all have ended.

        Raises `Refusal` where one of them failed.
        """
        self._listened = True
        try:
            while not self._said and self._failure is None:
                if not self._open:
                    return []
                self._more.clear()
                await self._more.wait()
        finally:
            self._listened = False
        if not self._said and self._failure is not None:
            raise self._failure
        said = list(self._said)
        self._said.clear()
        return said

    def take(self, reply: Reply, place: int) -> bool:
        """One more reply; whether it ends its request."""
        request = self._open[reply.id]
        ends = isinstance(reply, Failed | request.ends)
        if ends:
            del self._open[reply.id]
        if isinstance(reply, Failed):
            self.fail(of_failed(reply))
            return True
        self._said.append((place, reply))
        self._more.set()
        if ends:
            self._over(reply)
        elif len(self._said) > MOST_WAITING and not self._listened:
            self.fail(_too_slow())
            return True
        return ends

    def fail(self, failure: Refusal) -> None:
        """End with an error: replies so far can still be read; nothing more comes but this."""
        if self._failure is None:
            self._failure = failure
            self._drop()
            self._over(failure)
        self._more.set()

    def __enter__(self) -> "Inbound":
        return self

    def __exit__(self, *_: object) -> None:
        self._drop()

    def _drop(self) -> None:
        for number in list(self._open):
            self._to.drop(number)
        self._open.clear()


def _too_slow() -> Refusal:
    text = (
        f"the answer was stopped: the client did not read {MOST_WAITING:,} parts of it;"
        " read faster, or request fewer tokens or an answer that is not streamed"
    )
    return Refusal(429, text)
