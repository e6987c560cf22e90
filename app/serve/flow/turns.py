"""Who is answered and who waits: the slots of an engine, and a bounded queue before them."""

import asyncio
import contextlib
from collections import deque
from time import monotonic

from app.serve.counts import ServedCounts
from app.serve.web.refusal import Refusal, unavailable

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
