"""What an answer tells of its inside while it is written, and costs nothing where nobody looks."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from time import perf_counter

import numpy as np

from engine.errors import BadSetting, CannotProbe, NoMem
from engine.inside.summary import Summary, summarize
from engine.protocol import Live, ProbedRow, ProbedTokens, Reply
from engine.runner.pictures.items import Item
from engine.runner.recording import AnswerRecording
from engine.runner.sequence import Sequenced
from engine.runner.stepper import Extras, Logits, StartedStep
from engine.runner.watch import Watch
from engine.scheduler.probes import NO_PROBES, Probed, Probes
from engine.scheduler.record import Recorder

EVERY = 0.05
"""Seconds that are told together."""

AT_ONCE = 64
"""Tokens that are told together at most."""

_LAYER = re.compile(r".*-(\d+)")


class LiveWatch(Watch):
    """Computes tokens of an answer and tells what `live` asks for, which may change meanwhile."""

    def __init__(
        self, request_id: int, sequence: Sequenced, wanted: bool, live: Callable[[], Live]
    ) -> None:
        super().__init__(sequence, wanted)
        self._id = request_id
        self._live = live
        self._strip = _Strip(request_id)
        self._refused: Live | None = None
        self._told: list[Reply] = []
        self._n = 0
        self._probing = False
        self._now = Live()  # what is wanted of the step under way
        self._recorded = AnswerRecording(request_id)

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
            self._told.append(ProbedTokens(self._id, index, [], problem=str(error)))
            return super().begin(token, recorder)

        def logits() -> Logits:
            row = step()
            self.seen(step, row)
            if live.probes:
                named = tuple(live.probes)
                results = [one for one in step.probed() if _is_named(one.key.name, named)]
                self._strip.add(index, results)
            return row

        return logits

    def probes(self, live: Live) -> Probes:
        """What the next step copies out."""
        return Probes(tuple(live.probes))

    def seen(self, step: StartedStep, logits: Logits) -> None:
        """A step that copied something out has ended."""

    def looks(self, live: Live) -> bool:
        """Whether a later step will copy anything out."""
        return bool(live.probes)

    def found(self) -> Iterator[Reply]:
        yield from super().found()
        if self._strip.is_due():
            yield from self._strip.told()
        while self._told:
            yield self._told.pop(0)
        if not self._now.record:
            yield from self._recorded.told()

    def rest(self) -> Iterator[Reply]:
        yield from super().found()
        yield from self._strip.told()
        yield from self._told
        yield from self._recorded.told()

    def close(self) -> None:
        """Give back what probes took, however the answer ended, and before it."""
        self._probing = True
        self._end()

    def _end(self) -> None:
        if self._probing:
            self._probing = False
            self._told += self._strip.told()
            self.sequence.stepper.end_probes()


class _Strip:
    """Tokens of which nothing was told yet, all with the same rows."""

    def __init__(self, request_id: int) -> None:
        self._id = request_id
        self._first = 0
        self._rows: list[ProbedRow] = []
        self._tokens: list[Summary] = []
        self._before: list[ProbedTokens] = []
        self._due = 0.0

    def add(self, index: int, results: Sequence[Probed]) -> None:
        """What was found of a token."""
        if not results:
            return
        keys = [(one.key.name, one.key.occurrence) for one in results]
        if keys != [(row.name, row.occurrence) for row in self._rows]:
            self._before += self.told()
            self._rows = [ProbedRow(*key, layer_of(key[0])) for key in keys]
        if not self._tokens:
            self._first = index
        self._tokens.append(summarize([one.values for one in results]))

    def is_due(self) -> bool:
        """Whether what was found is to be told by now."""
        late = bool(self._tokens) and perf_counter() >= self._due
        return late or len(self._tokens) >= AT_ONCE or bool(self._before)

    def told(self) -> list[ProbedTokens]:
        """Everything that was found; then it is forgotten."""
        found, self._before = self._before, []
        if self._tokens:
            rms, largest, at, nan, inf = (
                np.stack(column).tobytes() for column in zip(*self._tokens, strict=True)
            )
            told = ProbedTokens(self._id, self._first, self._rows, rms, largest, at, nan, inf)
            found = [*found, told]
            self._tokens = []
            self._due = perf_counter() + EVERY
        return found


@lru_cache(1 << 12)
def _is_named(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a result was kept for a pattern, not for something else."""
    return bool(name) and any(re.fullmatch(pattern, name) for pattern in patterns)


def layer_of(name: str) -> int | None:
    """The layer that a result's name ends with: 3 for `l_out-3`."""
    found = _LAYER.fullmatch(name)
    return int(found[1]) if found else None
