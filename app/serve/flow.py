"""From many requests to one engine: a queue of replies for each request until the client has read
them; slots, and a bounded queue before them; a client that leaves is cancelled.

All of it runs in the server's loop; the engine calls from its own threads.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any, Protocol, cast

import msgspec

from app.engine import Engine, Event
from app.serve.counts import ServedCounts
from app.serve.web.refusal import Refusal, of_failed, unavailable
from engine.protocol import Failed, Finished, Generate, R, Reply, Request, SlotTable

MOST_WAITING = 1024
"""Replies that wait for a reader who is slow: some are bytes on the way, and these are memory."""

PlacedReply = tuple[int, Reply]
"""What the engine says about one of several requests: its place among them, and the reply."""

Over = Callable[[Reply | Refusal], None]


class Sending(Protocol):
    """Where an `Inbound`'s requests go."""

    def send(self, inbound: "Inbound", request: Request[Any], place: int) -> int:
        """Ask the engine; the request's number."""

    def drop(self, number: int) -> None:
        """End it; no more of its replies come."""


class Inbound:
    """Replies to requests, until its block ends; then none is under way. `over` is called at once
    with each reply that ends a request, and of a failure that ends them all: whoever takes the
    replies may come to that much later.
    """

    def __init__(self, to: Sending, over: Over = lambda end: None) -> None:
        self._to, self._over = to, over
        self._open: dict[int, Request[Any]] = {}
        self._replies: deque[PlacedReply] = deque()
        self._more = asyncio.Event()
        self._failure: Refusal | None = None
        self._listened = False
        self._n = 0

    def add(self, request: Request[Any], place: int | None = None) -> None:
        """Send one more, whose replies come with `place`: by default the next."""
        place = self._n if place is None else place
        self._n = max(self._n, place + 1)
        self._open[self._to.send(self, request, place)] = request

    async def batch(self) -> list[PlacedReply]:
        """All replies since the last call, at least one reply; nothing once all have ended.

        Raises `Refusal` where one of them failed.
        """
        self._listened = True
        try:
            while not self._replies and self._failure is None:
                if not self._open:
                    return []
                self._more.clear()
                await self._more.wait()
        finally:
            self._listened = False
        if not self._replies and self._failure is not None:
            raise self._failure
        replies = list(self._replies)
        self._replies.clear()
        return replies

    def take(self, reply: Reply, place: int) -> bool:
        """One more reply; whether it ends its request."""
        request = self._open[reply.id]
        ends = isinstance(reply, Failed | request.ends)
        if ends:
            del self._open[reply.id]
        if isinstance(reply, Failed):
            self.fail(of_failed(reply))
            return True
        self._replies.append((place, reply))
        self._more.set()
        if ends:
            self._over(reply)
        elif len(self._replies) > MOST_WAITING and not self._listened:
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


QUEUE_SECONDS = 600.0
MOST_RETRY = 120


class SlotQueue:
    """At most `slots` answers are under way, and at most `queue` requests wait, in order: then it
    refuses. Nobody is let in before `resume`. For the server's loop alone.
    """

    def __init__(self, slots: int, queue: int, counts: ServedCounts) -> None:
        self.slots, self.queue = slots, queue
        self._counts = counts
        self._free, self._since = slots, monotonic()
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._closing = ""
        self._held = True  # until there is a model

    @property
    def waiting(self) -> int:
        """How many requests wait for a slot."""
        return len(self._waiting)

    @property
    def busy(self) -> int:
        """How many slots have a request."""
        return self.slots - self._free

    async def enter(self, slots: int) -> "HeldSlots":
        """Wait for so many slots at once. Raises `Refusal` where the queue is full, or moves too
        slowly.
        """
        self.check()
        if self._held or self._waiting or self._free < slots:
            if len(self._waiting) >= self.queue:
                seconds = self._pace()
                text = f"{self.queue} requests are already waiting; try again in {seconds} s"
                raise Refusal(429, text, headers={"retry-after": str(seconds)})
            await self._wait(slots)
        else:
            self._take(slots)
        return HeldSlots(self, slots)

    def leave(self, slots: int) -> None:
        """Give slots to those who wait."""
        self._take(-slots)
        self._admit()

    def check(self) -> None:
        """Raise `Refusal` once the door is closed."""
        if self._closing:
            raise unavailable(self._closing)

    def close_door(self, reason: str) -> None:
        """Refuse what comes from now on; what is there goes on."""
        self._closing = reason

    def refuse_waiting(self, reason: str) -> None:
        """End all that wait with an error."""
        for _, waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(unavailable(reason))
        self._waiting.clear()

    def hold(self) -> None:
        """Let nobody in, until `resume`: there is no model."""
        self._held = True

    def resume(self) -> None:
        """Let in those who wait."""
        self._held = False
        self._admit()

    async def _wait(self, slots: int) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = slots, waiter
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(QUEUE_SECONDS):
                await waiter
        except BaseException as error:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.leave(slots)  # it was let in, and has gone meanwhile
            with contextlib.suppress(ValueError):
                self._waiting.remove(entry)
            self._admit()
            if isinstance(error, TimeoutError):
                text = f"no slot was free within {QUEUE_SECONDS:.0f} s"
                raise Refusal(429, text, headers={"retry-after": str(MOST_RETRY)}) from None
            raise

    def _admit(self) -> None:
        while (
            not self._held
            and self._waiting
            and (self._waiting[0][1].done() or self._waiting[0][0] <= self._free)
        ):
            slots, waiter = self._waiting.popleft()
            if not waiter.done():
                self._take(slots)
                waiter.set_result(None)

    def _take(self, slots: int) -> None:
        now = monotonic()
        self._counts.worked(self.busy, now - self._since)
        self._free, self._since = self._free - slots, now

    def _pace(self) -> int:
        """Seconds until the queue has moved on by one, as fast as answers ended so far."""
        return min(MOST_RETRY, max(1, round(self._counts.seconds_an_answer / self.slots)))


class HeldSlots:
    """Slots that are held until they are given back, the last of them when its block ends."""

    def __init__(self, turns: SlotQueue, slots: int) -> None:
        self._turns, self.slots = turns, slots

    def give(self, slots: int) -> None:
        """Give back so many of them."""
        self.slots -= slots
        self._turns.leave(slots)

    def __enter__(self) -> "HeldSlots":
        return self

    def __exit__(self, *_: object) -> None:
        if self.slots:
            self.give(self.slots)


DIRECT_AT_MOST = 64  # small questions on their way: tokens of a text, a template


class Gate:
    """One client of an engine, for all clients of the server. `on_event` gets events for everybody.

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
        self.table: SlotTable | None = None  # the engine's latest
        self._on_event = on_event
        self._client = engine.join(self._arrive)

    async def get(self, request: Request[R]) -> R:
        """The reply that ends a request. Raises `Refusal`."""
        if len(self._inboxes) > self.turns.slots + self.turns.queue + DIRECT_AT_MOST:
            raise Refusal(429, "too many requests at once", headers={"retry-after": "1"})
        with self.send_all([request]) as inbound:
            while True:
                for _, reply in await inbound.batch():
                    if isinstance(reply, request.ends):
                        return cast(R, reply)

    def send_all(self, requests: Iterable[Request[Any]], over: Over = lambda end: None) -> Inbound:
        """Send requests whose replies come together; on leaving they are cancelled."""
        self.turns.check()
        inbound = Inbound(self, over)
        for request in requests:
            inbound.add(request)
        return inbound

    def end_all(self, reason: str) -> None:
        """Refuse new requests, and end all that wait or are answered with an error."""
        self.turns.close_door(reason)
        self.turns.refuse_waiting(reason)
        for inbound in {id(i): i for i, _ in self._inboxes.values()}.values():
            inbound.fail(unavailable(reason))

    def close(self) -> None:
        """Leave the engine."""
        self._client.leave()

    # What an Inbound needs.

    def send(self, inbound: Inbound, request: Request[Any], place: int) -> int:
        number = self._client.send(request)
        self._inboxes[number] = inbound, place
        return number

    def drop(self, number: int) -> None:
        if self._inboxes.pop(number, None) is not None:
            self._client.cancel(number)

    def _arrive(self, event: Event) -> None:
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
