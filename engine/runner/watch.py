"""A look at a step now and then, while an answer is written: what each of its splits takes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import perf_counter

from engine.protocol import StepTimes
from engine.runner.profile import splits_of
from engine.runner.sequence import Sequenced
from engine.runner.stepper import Logits
from engine.scheduler.record import Recording

EVERY = 1.0  # seconds; a measured step takes about a quarter longer


@dataclass
class Watch:
    """Computes tokens of a sequence, every second one of them measured, if `wanted`."""

    sequence: Sequenced
    wanted: bool
    _next: float = 0.0
    _found: list[StepTimes] = field(default_factory=list)

    def start(self, token: int) -> Callable[[], Logits]:
        """As the sequence's; `found` tells the rest."""
        if not self.wanted or perf_counter() < self._next:
            return self.sequence.start(token)
        recording = Recording()
        finish = self.sequence.start(token, recording)

        def logits() -> Logits:
            row = finish()
            recording.done("logits")
            step_ns = recording.host[-1].end - recording.started
            n_context = len(self.sequence.tokens)
            self._found.append(StepTimes(0, n_context, step_ns, splits_of([recording])))
            self._next = perf_counter() + EVERY
            return row

        return logits

    def found(self) -> Iterator[StepTimes]:
        """What was measured since the last call."""
        while self._found:
            yield self._found.pop(0)
