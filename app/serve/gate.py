"""The way from many requests to one engine: numbers become queues, and who leaves is cancelled.

All of it belongs to the server's loop; the engine speaks from threads of its own.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any, cast

import msgspec

from app.engine import Engine, Event
from app.serve.counts import ServedCounts
from app.serve.web.refusal import Refusal, of_failed, unavailable
from engine.protocol import Failed, Generate, R, Reply, Request, SlotTable

QUEUE_SECONDS = 600.0
DIRECT_AT_MOST = 64  # small questions on their way: tokens of a text, a template
MOST_RETRY = 120

Said = tuple[int, Reply]
"""What the engine says about one of several requests: its place among them, and the reply."""


class Gate:
    """One client of an engine, for all who ask the server. `on_event` hears what is told to all.

    At most `slots` answers are under way, and at most `queue` wait, in order: then it refuses.
    """

    def __init__(
        self, engine: Engine, slots: int, queue: int, counts: ServedCounts,
        on_event: Callable[[Event], None] = lambda event: None,
    ) -> None:  # fmt: skip
        self.engine, self.slots, self.queue, self.counts = engine, slots, queue, counts
        self._loop = asyncio.get_running_loop()
        self._arrived: deque[Event] = deque()
        self._awake = False
        self._inboxes: dict[int, tuple[Inbound, int]] = {}
        self._free, self._since = slots, monotonic()
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.table: SlotTable | None = None  # as the engine told it last
        self._closing = ""
        self._held = True  # until there is a model
        self._on_event = on_event
        self._client = engine.join(self._hear)

    @property
    def waiting(self) -> int:
        """How many requests wait for a slot."""
        return len(self._waiting)

    @property
    def busy(self) -> int:
        """How many slots have a request."""
        return self.slots - self._free

    async def get(self, request: Request[R]) -> R:
        """The reply that ends a request. Raises `Refusal`."""
        if len(self._inboxes) > self.slots + self.queue + DIRECT_AT_MOST:
            raise Refusal(429, "too many requests at once", headers={"retry-after": "1"})
        with self.ask([request]) as inbound:
            while True:
                for _, reply in await inbound.batch():
                    if isinstance(reply, request.ends):
                        return cast(R, reply)

    async def enter(self, slots: int) -> "Entered":
        """Wait for so many slots at once; leave them by the context that is returned.

        Raises `Refusal` where the queue is full, or moves too slowly.
        """
        if self._closing:
            raise unavailable(self._closing)
        if self._held or self._waiting or self._free < slots:
            if len(self._waiting) >= self.queue:
                seconds = self._pace()
                text = f"{self.queue} requests wait already; try again in {seconds} s"
                raise Refusal(429, text, headers={"retry-after": str(seconds)})
            await self._wait(slots)
        else:
            self._take(slots)
        return Entered(self, slots)

    def leave(self, slots: int) -> None:
        """Give slots to those who wait."""
        self._take(-slots)
        self._admit()

    def ask(self, requests: Iterable[Request[Any]]) -> "Inbound":
        """Send requests whose replies are heard together; on leaving they are cancelled."""
        if self._closing:
            raise unavailable(self._closing)
        inbound = Inbound(self)
        for request in requests:
            inbound.add(request)
        return inbound

    def end_all(self, reason: str) -> None:
        """Refuse what comes, and tell all that wait or are answered that it is over."""
        self._closing = reason
        self.refuse_waiting(reason)
        for inbound in {id(i): i for i, _ in self._inboxes.values()}.values():
            inbound.fail(unavailable(reason))

    def refuse_waiting(self, reason: str) -> None:
        """Tell all that wait that it is over."""
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

    def close_door(self, reason: str) -> None:
        """Refuse what comes from now on; what is there goes on."""
        self._closing = reason

    def close(self) -> None:
        """Leave the engine."""
        self._client.leave()

    # What an Inbound needs.

    def send(self, inbound: "Inbound", request: Request[Any], place: int) -> int:
        number = self._client.ask(request)
        self._inboxes[number] = inbound, place
        return number

    def drop(self, number: int) -> None:
        if self._inboxes.pop(number, None) is not None:
            self._client.cancel(number)

    async def _wait(self, slots: int) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
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
        self.counts.worked(self.busy, now - self._since)
        self._free, self._since = self._free - slots, now

    def _pace(self) -> int:
        """Seconds until the queue has moved on by one, as fast as answers ended so far."""
        return min(MOST_RETRY, max(1, round(self.counts.seconds_an_answer / self.slots)))

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
            if not isinstance(event, Reply) or not event.id:
                self._on_event(event)
            elif event.id in self._inboxes:
                inbound, place = self._inboxes[event.id]
                if inbound.take(event, place):
                    del self._inboxes[event.id]


class Entered:
    """Slots that are held until its block ends."""

    def __init__(self, gate: Gate, slots: int) -> None:
        self._gate, self._slots = gate, slots

    def __enter__(self) -> "Entered":
        return self

    def __exit__(self, *_: object) -> None:
        self._gate.leave(self._slots)


class Inbound:
    """Replies to requests that belong together, until its block ends; then none is under way."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._open: dict[int, Request[Any]] = {}
        self._said: deque[Said] = deque()
        self._more = asyncio.Event()
        self._failure: Refusal | None = None
        self._n = 0
        self.began = monotonic()

    def add(self, request: Request[Any], place: int | None = None) -> None:
        """Send one more, whose replies are told as of `place`: by default the next."""
        place = self._n if place is None else place
        self._n = max(self._n, place + 1)
        self._open[self._gate.send(self, request, place)] = request

    async def batch(self) -> list[Said]:
        """All that was said since the last call, at least one reply; nothing once all have ended.

        Raises `Refusal` where one of them failed.
        """
        while not self._said and self._failure is None:
            if not self._open:
                return []
            self._more.clear()
            await self._more.wait()
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
        else:
            self._said.append((place, reply))
            self._more.set()
        return ends

    def fail(self, failure: Refusal) -> None:
        """Nothing more comes but this."""
        self._failure = self._failure or failure
        self._more.set()

    def __enter__(self) -> "Inbound":
        return self

    def __exit__(self, *_: object) -> None:
        for number in list(self._open):
            self._gate.drop(number)
        self._open.clear()


def choices(request: Generate, n: int) -> list[Generate]:
    """`n` requests that differ by their seeds alone: seed + j, where one is given."""
    seed = request.sampling.seed
    if n == 1 or seed is None:
        return [request] * n
    sampling = [
        msgspec.structs.replace(request.sampling, seed=(seed + j) % (1 << 64)) for j in range(n)
    ]
    return [msgspec.structs.replace(request, sampling=one) for one in sampling]
