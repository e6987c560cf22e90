"""The answers of the open model: many `Generate`s at once, and the table of their slots."""

import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from time import perf_counter, sleep

from engine.errors import CutawayError, SequenceBusy, UnknownPictures
from engine.inside.token.budget import LookBudget
from engine.inside.token.watch import TokenWatch
from engine.protocol import (
    Failed,
    Finished,
    Generate,
    Live,
    Progress,
    Reply,
    SlotRow,
    SlotTable,
)
from engine.runner.answering.answer import Revised, RunningAnswer, never_revised
from engine.runner.answering.batcher import Batcher, Broken
from engine.runner.answering.slots import Lent, Slots
from engine.runner.aside import LONG, Aside
from engine.runner.batch import MAX_BATCH
from engine.runner.edits import PLAIN, SequenceEdits
from engine.runner.loading import LoadedModel
from engine.runner.pictures.items import Item, rows_looked_at
from engine.runner.sequence import Sequenced
from engine.worker.handle import WENT_ON

WAITING = 0.005
"""Seconds between two looks whether somebody's form is ready, where nobody else is answered."""
TABLE_EVERY = 0.1
"""Seconds between two tables of slots."""


class AnswersAtOnce:
    """The answers of one model. `stops`, `looked_at` and `revised` say of a request whether
    it is to stop, what it reports of its inside, and its edits by now.
    """

    def __init__(
        self,
        model: LoadedModel,
        send: Callable[[Reply], None],
        stops: Callable[[Generate], Callable[[], bool]],
        looked_at: Callable[[Generate], Callable[[], Live]],
        revised: Callable[[Generate], Revised] = lambda request: never_revised,
    ) -> None:
        self.model, self._send, self._stops, self._looked_at = model, send, stops, looked_at
        self._revised = revised
        self._looks = LookBudget()
        self._answers: dict[int, RunningAnswer] = {}
        self._preparing: dict[int, Aside[RunningAnswer]] = {}  # their prompts are tokenised
        self.slots = Slots(model)
        self._batcher = Batcher(model, self.slots)
        self._sent_table, self._due = self.table(0), 0.0
        self.notes: list[str] = []
        """Notes that the next answer ends with, beside its own."""

    @property
    def is_idle(self) -> bool:
        """True if there is no answer."""
        return self._batcher.is_idle and not self._preparing

    def plans(self) -> Iterator[None]:
        """Make plans for the next answer while there is none, one at a time; yields before each.
        Where memory or a driver refuses one, the answer finds out by itself.
        """
        for backend in self.model.dry.backends:
            backend.watch_builds(self._send_builds)
        with suppress(CutawayError):
            yield from self.model.plans()
            yield from self._batcher.plans()

    def add(self, request: Generate) -> None:
        """Begin an answer, as soon as there is room. Raises as `RunningAnswer`."""

        def watching(sequence: Sequenced) -> TokenWatch:
            looked_at = self._looked_at(request)
            return TokenWatch(self.model, sequence, request, looked_at, self._looks)

        stops = self._stops(request)
        revised = self._revised(request)
        make = partial(RunningAnswer, self.model, request, stops, watching, revised=revised)
        if _length(request) >= LONG:
            self._preparing[request.id] = Aside(make, stops)
        else:
            self._add(make())

    def _add(self, answer: RunningAnswer) -> None:
        self._answers[answer.request.id] = answer
        answer.tally.notes += self.notes
        self.notes.clear()
        for backend in self.model.dry.backends:  # or builds would count as the loading's
            backend.watch_builds(self._send_builds)
        self._batcher.add(answer)

    def lend(self) -> AbstractContextManager[Lent]:
        """A sequence for something else than an answer. Raises `SequenceBusy` where answers that
        came before need all that are idle.
        """
        if len(self.slots.idle) <= len(self._batcher.waiting):
            raise SequenceBusy
        return self.slots.lend()

    def claim(
        self,
        lent: Lent,
        items: Sequence[Item],
        edits: SequenceEdits = PLAIN,
        shares: bool = False,
    ) -> None:
        """Have cells for items in a lent sequence, which goes on from what another holds of these
        if it `shares`. Raises `SequenceBusy` where answers are promised them.
        """
        lent.wanted = len(items)
        if self._batcher.running and not self._batcher.room.lends(self._batcher.running):
            raise SequenceBusy
        lent.sequence.clear()
        while self._batcher.room.lacks(0, rows_looked_at(items)) and self.slots.evict():
            pass
        if shares:
            self.slots.share(lent.sequence, items, edits)

    def make_room(self) -> None:
        """Find cells for the next step of those who have a sequence lent."""
        wanted = map(self._batcher.room.left, self.slots.lent.values())
        self.free(min(MAX_BATCH, max(wanted, default=0)))

    def free(self, n: int) -> None:
        """Find so many cells, should answers have to wait for them again."""
        while not self._batcher.make_room(n, for_others=True):
            pass

    def has_room(self, n: int) -> bool:
        """True if so many cells can be had without an answer's having to wait."""
        while self._batcher.room.lacks(n):
            if not self.slots.evict():
                return not self._batcher.running
        return True

    def turn(self) -> list[int]:
        """One step of all that are answered. Returns the requests that have ended."""
        ended = self._take_prepared()
        try:
            for outcome in self._batcher.turn():
                if isinstance(outcome, Broken):
                    ended.append(self._end(failed(outcome.answer.request.id, outcome.error)))
                elif isinstance(outcome, Finished):
                    n_read = outcome.stats.n_prompt - outcome.stats.n_cached
                    self.model.prefixes.measured(n_read, outcome.stats.prefill_s)
                    ended.append(self._end(outcome))
                else:
                    self._send(outcome)
        except Exception as error:  # noqa: BLE001  a bug: sent to everybody, the worker lives on
            ended += [self._end(failed(number, error)) for number in list(self._answers)]
            self._batcher = Batcher(self.model, self.slots)
            for sequence in self.slots.known:
                self.slots.leave(sequence)
                sequence.clear()
        self._send_slots()
        if not self._batcher.running and not self.is_idle:
            sleep(WAITING)
        return ended

    def _take_prepared(self) -> list[int]:
        """Begin the answers whose prompts are tokenised by now. Returns those that have failed."""
        ended = []
        for number in [n for n, aside in self._preparing.items() if aside.wait(0)]:
            try:
                self._add(self._preparing.pop(number).result())
            except Exception as error:  # noqa: BLE001  the client gets it
                self._send(failed(number, error))
                ended.append(number)
        return ended

    def table(self, number: int) -> SlotTable:
        """The slots as a message."""
        cache = max(self.model.built.caches.caches, key=lambda one: one.n_cells, default=None)
        return SlotTable(
            number,
            [self._row(sequence) for sequence in self.slots.sequences],
            len(self._batcher.waiting),
            cache.n_cells if cache else 0,
            cache.n_free if cache else 0,
        )

    def _row(self, sequence: Sequenced) -> SlotRow:
        answer, n = self.slots.held.get(sequence.number), len(sequence.items)
        if answer is None:
            return SlotRow(sequence.number, 0, n)
        n_prompt, drawn = len(answer.prompt.items), answer.tally.n_generated
        return SlotRow(sequence.number, answer.request.id, n, n_prompt, min(n, n_prompt), drawn)

    def _end(self, reply: Reply) -> int:
        answer = self._answers.pop(reply.id)
        if not answer.is_new:
            answer.watch.close()
        self.model.forget_rows()
        self._send(reply)
        return reply.id

    def _send_builds(self, done: int, total: int) -> None:
        for answer in self._batcher.running:
            self._send(Progress(answer.request.id, "compile", done, total))

    def _send_slots(self) -> None:
        """Where there are several, at most so often; and what is last."""
        if len(self.slots.sequences) == 1:
            return
        now = perf_counter()
        if now < self._due and not self.is_idle:
            return
        table = self.table(0)
        if table != self._sent_table:
            self._sent_table, self._due = table, now + TABLE_EVERY
            self._send(table)


def _length(request: Generate) -> int:
    """Characters of all that is to be tokenised."""
    texts = [request.prompt or "", request.prefix, *(one.text for one in request.messages)]
    return sum(map(len, texts)) + (len(request.infill.text) if request.infill else 0)


def failed(number: int, error: BaseException) -> Failed:
    """Convert an error to the reply that ends its request."""
    if isinstance(error, UnknownPictures):
        return Failed(number, error.kind, str(error), list(error.digests))
    if isinstance(error, CutawayError):
        return Failed(number, error.kind, str(error))
    if isinstance(error, MemoryError):
        text = "the system has no memory left; close programs or choose a smaller context"
        return Failed(number, "NoMem", text)
    traceback.print_exception(error)  # a bug: sent to the app, the worker lives on
    sys.stderr.write(f"{WENT_ON}\n")
    sys.stderr.flush()
    return Failed(number, "Unexpected", f"unexpected {type(error).__name__}: {error}")
