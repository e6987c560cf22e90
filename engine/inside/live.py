"""Inside values sent during an answer; free where no view is open."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import perf_counter

from engine.errors import BadSetting, CannotProbe, NoMem
from engine.inside.cells import cells_of
from engine.inside.strip import ProbeStrip
from engine.protocol import CellsRead, Live, ProbedTokens, Reply
from engine.runner.pictures.items import Item
from engine.runner.recording import AnswerRecording
from engine.runner.sequence import Sequenced
from engine.runner.stepper import Extras, Logits, StartedStep
from engine.runner.watch import Watch
from engine.scheduler.probes import NO_PROBES, Probes
from engine.scheduler.record import Recorder

CELLS_EVERY = 0.25
"""Seconds between two looks at the caches."""


class LiveWatch(Watch):
    """Computes tokens of an answer and sends what `live` requests, which may change meanwhile."""

    def __init__(
        self, request_id: int, sequence: Sequenced, wanted: bool, live: Callable[[], Live]
    ) -> None:
        super().__init__(sequence, wanted)
        self._id = request_id
        self._live = live
        self._strip = ProbeStrip(request_id)
        self._refused: Live | None = None
        self._replies: list[Reply] = []
        self._n = 0
        self._probing = False
        self._now = Live()  # what is wanted of the step under way
        self._recorded = AnswerRecording(request_id)
        self._cells_due = 0.0

    def start(self, token: int) -> Callable[[], Logits]:
        self._now = self._live()
        if not self._now.record:
            return super().start(token)
        n_context = len(self.sequence.items)
        return self._recorded.step(partial(self.begin, token), "decode", 1, n_context)

    def read(self, part: Sequence[Item], extras: Extras) -> Callable[[], Logits]:
        self._now = self._live()
        if not self._now.record:
            return super().read(part, extras)
        begin = partial(self.sequence.begin, part, extras)
        return self._recorded.step(begin, "prefill", len(part), len(self.sequence.items))

    def begin(self, token: int, recorder: Recorder) -> Callable[[], Logits]:
        index, self._n = self._n, self._n + 1
        live = self._now
        probes = self.probes(live) if live != self._refused else NO_PROBES
        if not probes:
            if not self.looks(live):
                self._end()
            return super().begin(token, recorder)
        self._probing = True
        try:
            step = self.sequence.start(token, recorder, probes)
        except (BadSetting, CannotProbe, NoMem) as error:  # the answer goes on without
            self._refused = live
            self._end()
            self._replies.append(ProbedTokens(self._id, index, [], problem=str(error)))
            return super().begin(token, recorder)

        def logits() -> Logits:
            row = step()
            self.seen(step, row)
            if live.probes:
                self._strip.add(index, step, live.probes)
            return row

        return logits

    def shares(self) -> bool:
        live = self._live()
        return not live.record and not self.looks(live) and super().shares()

    def shared(self) -> None:
        self._now = self._live()
        self._n += 1
        self._end()

    def probes(self, live: Live) -> Probes:
        """The probes of the next step."""
        return Probes(tuple(live.probes))

    def seen(self, step: StartedStep, logits: Logits) -> None:
        """A step that copied something out has ended."""

    def looks(self, live: Live) -> bool:
        """True if a later step will copy anything out."""
        return bool(live.probes)

    def found(self) -> Iterator[Reply]:
        yield from super().found()
        if self._strip.is_due():
            yield from self._strip.replies()
        while self._replies:
            yield self._replies.pop(0)
        if self._now.cells and perf_counter() >= self._cells_due:
            self._cells_due = perf_counter() + CELLS_EVERY
            yield CellsRead(self._id, cells_of(self.sequence.stepper.built))
        if not self._now.record:
            yield from self._recorded.replies()

    def rest(self) -> Iterator[Reply]:
        yield from super().found()
        yield from self._strip.replies()
        yield from self._replies
        yield from self._recorded.replies()

    def close(self) -> None:
        """Give back what probes took, however the answer ended, and before it."""
        self._probing = True
        self._end()

    def _end(self) -> None:
        if self._probing:
            self._probing = False
            self._replies += self._strip.replies()
            self.sequence.stepper.end_probes()
