"""Records the steps of an answer while it is written, in bounded memory, and what that costs."""

from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter_ns

import numpy as np
from numpy.typing import NDArray

from engine.protocol import AnswerRecorded, LaunchKind, Phase, RecordedStep
from engine.runner.launched import LaunchTable, host_of, launches_of
from engine.runner.stepper import Logits
from engine.scheduler.record import UNRECORDED, Recorder, Recording

MOST_LAUNCHES = 100_000
"""That are kept of one answer: 3.6 MB."""

PLAIN, PLAIN_AT = 8, 3
"""Each eighth step of one token runs unrecorded, to be compared with; an odd one, as of a thinned
recording only even ones are kept.
"""

NONE = np.empty(0, "<i4")

Begin = Callable[[Recorder], Callable[[], Logits]]


class AnswerRecording:
    """Gives each step its recorder and keeps what that found, until it is taken.

    Where there would be too many launches, every second kept step of one token is let go, and from
    then on only half as many are recorded.
    """

    def __init__(self, request_id: int) -> None:
        self._id = request_id
        self._forget()

    def _forget(self) -> None:
        self._kinds: dict[LaunchKind, int] = {}
        self._known: dict[LaunchTable, NDArray[np.int32]] = {}
        self._steps: list[RecordedStep] = []
        self._began = 0
        self._n = self._n_launches = self._n_dropped = 0
        self._every = 1
        self._plain: list[int] = []
        self._recorded: list[int] = []

    def step(
        self, begin: Begin, phase: Phase, n_tokens: int, n_context: int
    ) -> Callable[[], Logits]:
        """Begin a step of `n_tokens` after `n_context`, recorded or plain; call what is returned
        once, for its logits.
        """
        started = perf_counter_ns()
        self._began = self._began or started
        decodes = phase == "decode"
        self._n += decodes
        is_plain = decodes and self._n % PLAIN == PLAIN_AT
        wanted = not is_plain and (not decodes or self._n % self._every == 0)
        recording = Recording() if wanted else None
        finish = begin(recording or UNRECORDED)

        def logits() -> Logits:
            row = finish()
            if recording is not None:
                recording.done("logits")
                self._keep(recording, phase, n_tokens, n_context)
            if decodes:
                times = self._plain if recording is None else self._recorded
                times.append(perf_counter_ns() - started)
            return row

        return logits

    def replies(self) -> Iterator[AnswerRecorded]:
        """All that was recorded, if anything was; then it is forgotten."""
        if self._steps:
            plain, recorded = (
                round(median(times)) if times else 0 for times in (self._plain, self._recorded)
            )
            yield AnswerRecorded(
                self._id,
                list(self._kinds),
                self._steps,
                plain,
                recorded,
                self._every,
                self._n_dropped,
            )
        self._forget()

    def _keep(self, recording: Recording, phase: Phase, n_tokens: int, n_context: int) -> None:
        launches = launches_of(recording)
        kinds = np.concatenate([NONE, *map(self._numbers, launches.tables)])[launches.order]
        starts, ends = launches.spans.astype("<i8")
        sizes, flops = launches.work.astype("<i8")
        self._steps.append(
            RecordedStep(
                phase,
                n_tokens,
                n_context,
                recording.started - self._began,
                recording.host[-1].end - recording.started,
                kinds.tobytes(),
                starts.tobytes(),
                ends.tobytes(),
                sizes.tobytes(),
                flops.tobytes(),
                host_of(recording),
                recording.splits(),
            )
        )
        self._n_launches += len(kinds)
        if self._n_launches > MOST_LAUNCHES:
            self._thin()

    def _numbers(self, table: LaunchTable) -> NDArray[np.int32]:
        """The places of a split's launches among the answer's kinds."""
        if table not in self._known:
            places = [self._kinds.setdefault(kind, len(self._kinds)) for kind in table.kinds]
            self._known[table] = np.array(places, "<i4")
        return self._known[table]

    def _thin(self) -> None:
        """Let go of every second step of one token; of prefill the first are kept."""
        decoded = [step for step in self._steps if step.phase == "decode"]
        gone = decoded[1::2] if len(decoded) > 1 else self._steps[1:]
        dropped = {id(step) for step in gone}
        self._steps = [step for step in self._steps if id(step) not in dropped]
        self._n_dropped += len(gone)
        self._every *= 2
        self._n_launches = sum(len(step.kinds) // 4 for step in self._steps)
