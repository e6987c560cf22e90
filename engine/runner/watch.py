"""Measures one decode step per second during an answer: the time of each split."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter

from engine.protocol import Reply, SplitRecord, StepTimes
from engine.runner.pictures.items import Item
from engine.runner.sequence import Sequenced
from engine.runner.stepper import Extras, Logits
from engine.scheduler.record import UNRECORDED, Recorder, Recording

EVERY = 1.0  # seconds; a measured step takes about a quarter longer


@dataclass
class Watch:
    """Computes tokens of a sequence; if `wanted`, one token per second is measured."""

    sequence: Sequenced
    wanted: bool
    _next: float = 0.0
    _found: list[StepTimes] = field(default_factory=list)

    def start(self, token: int) -> Callable[[], Logits]:
        """`Sequenced.start`; what was measured comes from `found`."""
        if not self.measures() or perf_counter() < self._next:
            return self.begin(token, UNRECORDED)
        recording = Recording()
        finish = self.begin(token, recording)

        def logits() -> Logits:
            row = finish()
            recording.done("logits")
            self.measured(recording)
            self._next = perf_counter() + EVERY
            return row

        return logits

    def shares(self) -> bool:
        """True if nobody looks into the next step: it may have parts of other sequences."""
        return not self.measures() or perf_counter() < self._next

    def shared(self) -> None:
        """The next token is computed with parts of other sequences, and not here."""

    def measures(self) -> bool:
        """True if steps are measured now and then."""
        return self.wanted

    def measured(self, recording: Recording) -> None:
        """A step that has ended was recorded."""
        if self.wanted:
            step_ns = recording.host[-1].end - recording.started
            n_context = len(self.sequence.items)
            spans = [ns for one in recording.ran() for ns in (one.spans[1] - one.spans[0]).tolist()]
            times = StepTimes(0, n_context, step_ns, splits_of([recording]), spans)
            self._found.append(times)

    def read(self, part: Sequence[Item], extras: Extras) -> Callable[[], Logits]:
        """`Sequenced.begin`, of a part of the prompt."""
        return self.sequence.begin(part, extras)

    def begin(self, token: int, recorder: Recorder) -> Callable[[], Logits]:
        """`Sequenced.start`, for those who look further into a step."""
        return self.sequence.start(token, recorder)

    def rest(self) -> Iterator[Reply]:
        """Yield the remaining measurements at the end of the answer."""
        return self.found()

    def close(self) -> None:
        """Give back what looking took, however the answer ended."""

    def found(self) -> Iterator[Reply]:
        """Yield the measurements since the last call."""
        while self._found:
            yield self._found.pop(0)


def splits_of(recordings: Sequence[Recording]) -> list[SplitRecord]:
    """Median times per split over several recordings of the same step."""
    steps = zip(*(recording.splits() for recording in recordings), strict=True)
    return [
        SplitRecord(
            same[0].device,
            same[0].n_nodes,
            same[0].first,
            same[0].last,
            same[0].copies,
            same[0].copied,
            round(median(one.copy_ns for one in same)),
            round(median(one.compute_ns for one in same)),
        )
        for same in steps
    ]
