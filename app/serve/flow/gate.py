"""The way from many requests to one engine: numbers become queues, and who leaves is cancelled.

All of it belongs to the server's loop; the engine speaks from threads of its own.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec

from app.engine import Engine, Event
from app.serve.counts import ServedCounts
from app.serve.flow.inbound import Inbound, Over
from app.serve.flow.turns import SlotQueue
from app.serve.web.refusal import Refusal, unavailable
from engine.protocol import Finished, Generate, R, Reply, Request, SlotTable

DIRECT_AT_MOST = 64  # small questions on their way: tokens of a text, a template


class Gate:
    """One client of an engine, for all who ask the server. `on_event` hears what is told to all.

    `turns` has the slots, which answers must hold; small questions need none.
    """

    def __init__(
        self, engine: Engine, turns: SlotQueue, counts: ServedCounts,
        on_event: Callable[[Event], None] = lambda event: None,
    ) -> None:  # fmt: skip
        self.turns, self.counts = turns, counts
        self._loop = asyncio.get_running_loop()
        self._arrived: deque[Event] = deque()
        self._awake = False
        self._inboxes: dict[int, tuple[Inbound, int]] = {}
        self.table: SlotTable | None = None  # as the engine told it last
        self._on_event = on_event
        self._client = engine.join(self._hear)

    async def get(self, request: Request[R]) -> R:
        """The reply that ends a request. Raises `Refusal`."""
        if len(self._inboxes) > self.turns.slots + self.turns.queue + DIRECT_AT_MOST:
            raise Refusal(429, "too many requests at once", headers={"retry-after": "1"})
        with self.ask([request]) as inbound:
            while True:
                for _, reply in await inbound.batch():
                    if isinstance(reply, request.ends):
                        return cast(R, reply)

    def ask(self, requests: Iterable[Request[Any]], over: Over = lambda end: None) -> Inbound:
        """Send requests whose replies are heard together; on leaving they are cancelled."""
        self.turns.check()
        inbound = Inbound(self, over)
        for request in requests:
            inbound.add(request)
        return inbound

    def end_all(self, reason: str) -> None:
        """Refuse what comes, and tell all that wait or are answered that it is over."""
        self.turns.close_door(reason)
        self.turns.refuse_waiting(reason)
        for inbound in {id(i): i for i, _ in self._inboxes.values()}.values():
            inbound.fail(unavailable(reason))

    def close(self) -> None:
        """Leave the engine."""
        self._client.leave()

    # What an Inbound needs.

    def send(self, inbound: Inbound, request: Request[Any], place: int) -> int:
        number = self._client.ask(request)
        self._inboxes[number] = inbound, place
        return number

    def drop(self, number: int) -> None:
        if self._inboxes.pop(number, None) is not None:
            self._client.cancel(number)

    def _hear(self, event: Event) -> None:
        """From the engine's threads, under its lock."""
        self._arrived.append(event)
        if not self._awake:
            self._awake = True
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._awake = False  # before looking: what comes now wakes it again
        while self._arrived:
            event = self._arrived.popleft()
            if isinstance(event, Finished):
                self.counts.made(event.stats)  # also where nobody waits for it any more
            if not isinstance(event, Reply) or not event.id:
                self._on_event(event)
            elif event.id in self._inboxes:
                inbound, place = self._inboxes[event.id]
                if inbound.take(event, place):
                    self._inboxes.pop(event.id, None)


def choices(request: Generate, n: int) -> list[Generate]:
    """`n` requests that differ by their seeds alone: seed + j, where one is given."""
    seed = request.sampling.seed
    if n == 1 or seed is None:
        return [request] * n
    sampling = [
        msgspec.structs.replace(request.sampling, seed=(seed + j) % (1 << 64)) for j in range(n)
    ]
    return [msgspec.structs.replace(request, sampling=one) for one in sampling]
