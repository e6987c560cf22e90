"""Answers under way: what a request for text becomes, for every API alike."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from types import MappingProxyType
from typing import Self

from app.serve.clients import Clients, ServedRequest
from app.serve.collected import Collected
from app.serve.counts import ServedCounts
from app.serve.flow import Gate, HeldSlots, Inbound, PlacedReply
from app.serve.web.refusal import PicturesGone, Refusal, unavailable
from engine.protocol import Finished, Generate, Piece, Progress, PutPicture, Reply, Stats


class Answers:
    """The answers to some requests of one client, as many at once as there are slots.

    `pictures` are files by their digests, sent again where the engine has forgotten them. Used
    as a context, behind which nothing goes on. A slot is given back once the engine has nothing
    more to do in it, however slowly its answer is read.
    """

    def __init__(
        self,
        gate: Gate,
        clients: Clients,
        who: tuple[str, str],
        requests: Sequence[Generate],
        pictures: Mapping[str, bytes] = MappingProxyType({}),
    ) -> None:
        self._gate, self._clients, self._who = gate, clients, who
        self.requests, self._pictures = list(requests), pictures
        self._next = deque(enumerate(self.requests))
        self._row: ServedRequest | None = None
        self._turn: HeldSlots | None = None
        self._inbound: Inbound | None = None
        self._timing = _Timing(gate.counts)
        self._reason = "gone"
        self.check: Callable[[], object] = lambda: None  # raises where the model is another by now

    async def __aenter__(self) -> Self:
        first = self.requests[0]
        self._row = self._clients.began(*self._who, first, len(self.requests))
        try:
            slots = min(len(self.requests), self._gate.turns.slots)
            self._turn = await self._gate.turns.enter(slots)
            self.check()
            self._begin(slots)
        except BaseException as error:
            self._end("error" if isinstance(error, Refusal) else "gone")
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, Refusal):
            self._end("error")
        else:
            self._end(self._reason if self._timing.ended == len(self.requests) else "gone")

    async def batch(self) -> list[PlacedReply]:
        """Wait for the replies since the last call, at least one; empty once all answers have
        ended. Nothing once all have ended.

        Raises `Refusal`.
        """
        assert self._inbound is not None
        assert self._row is not None
        try:
            replies = await self._inbound.batch()
            while replies and not (kept := [one for one in replies if not _before(one[1])]):
                replies = await self._inbound.batch()
        except PicturesGone as gone:
            await self._begin_anew(gone)
            return await self.batch()
        replies = kept if replies else []
        for place, reply in replies:
            if isinstance(reply, Piece):
                self._timing.piece(self._row, place, reply)
                if place == 0 and reply.text:
                    self._clients.added_text(self._row, reply.text)
            elif isinstance(reply, Finished):
                if reply.reason == "cancelled":
                    raise unavailable("the server stopped the answer")
                self._timing.finish(self._row, place, reply)
                self._reason = reply.reason
        return replies

    async def _begin_anew(self, gone: PicturesGone) -> None:
        """Request again, with the pictures; not where something was sent, or for a second time."""
        lost, self._pictures = self._pictures, {}
        if self._timing.begun or any(digest not in lost for digest in gone.digests):
            raise gone
        assert self._inbound is not None
        self._inbound.__exit__()
        for data in lost.values():
            await self._gate.get(PutPicture(0, data))
        self._next = deque(enumerate(self.requests))
        assert self._turn is not None
        self._begin(self._turn.slots)

    def _begin(self, slots: int) -> None:
        self._inbound = self._gate.send_all([], self._over)
        for _ in range(slots):
            self._inbound.add(*self._following())

    def _over(self, end: Reply | Refusal) -> None:
        """One of them has ended in the engine, or all have: who waits is let in."""
        assert self._inbound is not None
        assert self._turn is not None
        if isinstance(end, PicturesGone):
            return  # they may begin anew
        if isinstance(end, Refusal):
            self._turn.give(self._turn.slots)
        elif self._next and not (isinstance(end, Finished) and end.reason == "cancelled"):
            self._inbound.add(*self._following())
        else:
            self._turn.give(1)

    def _following(self) -> tuple[Generate, int]:
        place, request = self._next.popleft()
        return request, place

    def _end(self, reason: str) -> None:
        if self._inbound is not None:
            self._inbound.__exit__()
        if self._turn is not None:
            self._turn.__exit__()
        if self._row is not None:
            if reason in ("error", "gone"):
                self._gate.counts.ended(reason)
            self._clients.ended(self._row, reason, self._timing.stats)


async def all_of(answers: Answers) -> list[Collected]:
    """The whole answers, once all have ended. Raises `Refusal`."""
    made = [Collected.of(request) for request in answers.requests]
    async with answers:
        while replies := await answers.batch():
            for place, reply in replies:
                made[place].add(reply)
    for one in made:
        one.drop_cut_call()
    return made


def _before(reply: Reply) -> bool:
    """Return whether a reply reports work before the answer is admitted, which may still fail."""
    return isinstance(reply, Progress) and reply.stage == "form"


class _Timing:
    """Times of some answers for the counts."""

    def __init__(self, counts: ServedCounts) -> None:
        self._counts = counts
        self._last: dict[int, float] = {}
        self.ended = 0
        self.begun = False
        self.stats: Stats | None = None

    def piece(self, row: ServedRequest, place: int, piece: Piece) -> None:
        self.begun = True
        if not piece.tokens:
            return
        now = monotonic()
        if place in self._last:
            n = len(piece.tokens)
            self._counts.between.add((now - self._last[place]) / n, n)
        else:
            self._counts.first_token.add(now - row.began)
        self._last[place] = row.last = now
        row.first = row.first or now
        row.n_generated += len(piece.tokens)

    def finish(self, row: ServedRequest, place: int, finished: Finished) -> None:
        self.ended += 1
        row.n_prompt = max(row.n_prompt, finished.stats.n_prompt)
        if place == 0:
            self.stats = finished.stats
        self._counts.finished(finished.reason, monotonic() - row.began)
