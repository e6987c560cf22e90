"""Many answers at once: each step computes everyone's token, and pieces of prompts beside."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import NamedTuple
from weakref import WeakSet

import numpy as np

from engine.errors import Cancelled
from engine.kvcache.causal import BITS, CausalCache
from engine.models.base import Output
from engine.protocol import Progress, Reply
from engine.runner.answering.answer import RunningAnswer
from engine.runner.answering.drawing import Row
from engine.runner.answering.pace import Pace
from engine.runner.answering.slots import Lent, Slots
from engine.runner.drafting.ahead import Ahead
from engine.runner.drafting.drafts import NO_DRAFT, Draft
from engine.runner.drafting.economy import Economy
from engine.runner.loading import LoadedModel
from engine.runner.pictures.items import Item
from engine.runner.stepper import Extras, Logits, StartedStep
from engine.sampling.cuts import best_of


class CellRoom:
    """The cells of a model whose sequences are these slots."""

    def __init__(self, model: LoadedModel, slots: Slots) -> None:
        self.caches, self.slots = model.built.caches, slots

    @property
    def _whole(self) -> list[CausalCache]:
        """The caches that hold every token; others have room for as many sequences as there are."""
        return [one for one in self.caches.caches if one.window is None and one.chunk is None]

    def lacks(self, n: int, n_rows: int = 0) -> bool:
        """True if fewer cells are free than so many tokens take, or rows of pictures that layers
        look at.
        """
        encoded = self.caches.encoded
        no_rows = encoded is not None and encoded.n_room < n_rows
        return no_rows or any(one.n_free < n for one in self._whole)

    def admits(self, running: Iterable[RunningAnswer], answer: RunningAnswer) -> bool:
        """True if a prompt and some of what it will say find cells beside the others'."""
        held = (one.shared(answer.pending, answer.edits) for one in self.slots.known)
        known = max(held, default=0)
        return self._has(running, len(answer.pending) + answer.to_come - known)

    def left(self, lent: Lent) -> int:
        """How many more cells are wanted by who has a sequence lent."""
        bit = 1 << lent.sequence.number
        held = (np.count_nonzero(one.cells[:, BITS] & bit) for one in self._whole)
        return max(0, lent.wanted - int(max(held, default=0)))

    def lends(self, running: Iterable[RunningAnswer]) -> bool:
        """True if all that sequences were lent for finds cells beside the answers'."""
        return self._has(running, 0)

    def _has(self, running: Iterable[RunningAnswer], more: int) -> bool:
        more += sum(len(one.pending) + one.to_come for one in running)
        more += sum(map(self.left, self.slots.lent.values()))
        bits = sum(1 << number for number in (*self.slots.held, *self.slots.lent))
        return all(
            np.count_nonzero(one.cells[:, BITS] & bits) + more <= one.n_cells for one in self._whole
        )


class Piecemeal(NamedTuple):
    """The part of an answer that one step computes."""

    answer: RunningAnswer
    part: list[Item]
    extras: Extras
    draft: Draft = NO_DRAFT

    @property
    def tokens(self) -> list[Item]:
        """All that it computes."""
        return [*self.part, *self.draft.tokens]

    @property
    def n_outputs(self) -> int:
        """How many of its last rows' logits are wanted: of all where it writes."""
        if not self.is_last:
            return 0
        return 1 if self.answer.is_reading else len(self.part) + len(self.draft.tokens)

    @property
    def is_last(self) -> bool:
        """True if logits are wanted behind it: nothing is pending after it."""
        return len(self.part) == len(self.answer.pending)

    @property
    def is_alone(self) -> bool:
        """True if it takes a step of its own, as where it shows pictures."""
        extras = self.extras
        shows = extras.rows is not None or extras.ends is not None or bool(extras.entering)
        return shows or self.answer.is_alone

    @property
    def n_rows(self) -> int:
        """Rows of pictures that enter with it, for layers that look at them."""
        return sum(len(one.rows) for one in self.extras.entering)


NO_LOGITS: Logits = np.empty(0, np.float32)


@dataclass(frozen=True)
class Broken:
    """An answer has ended with an error."""

    answer: RunningAnswer
    error: Exception


Outcome = Reply | Broken


class Batcher:
    """The answers of a model: those in sequences, in the order they came, and those that wait.

    `turn` makes one step of all that are `running`. What goes wrong in a step ends the answers in
    it; what goes wrong with one answer's words ends that one.
    """

    def __init__(self, model: LoadedModel, slots: Slots, economy: Economy | None = None) -> None:
        """`economy` decides about drafts; by default one that knows nothing yet."""
        self.model, self.slots, self.room = model, slots, CellRoom(model, slots)
        self.waiting: list[RunningAnswer] = []
        self.running: list[RunningAnswer] = []
        self._line: list[RunningAnswer] = []  # those running; who reads next stands first
        self._reader: dict[RunningAnswer, RunningAnswer | None] = {}
        self._forming: WeakSet[RunningAnswer] = WeakSet()  # which were noted as such
        self._pace = Pace(model.stepper.patience)
        self._ahead = Ahead(model.stepper, economy, model.draft)
        self._ahead.is_wanted |= model.options.spec_type != "none"

    @property
    def is_idle(self) -> bool:
        """True if there is no answer."""
        return not (self.running or self.waiting)

    def add(self, answer: RunningAnswer) -> None:
        """Write this answer as soon as there is room."""
        self.waiting.append(answer)
        answer.speculate(self._ahead.economy.chances)
        self._ahead.is_wanted |= answer.drafts is not None

    def plans(self) -> Iterator[None]:
        """Make plans that answers with drafts will take, one at a time; yields before each."""
        yield from self._ahead.plans()

    def turn(self) -> Iterator[Outcome]:
        """Run one step for all answers, or one each if they cannot share it, and yield their
        replies.
        """
        yield from self._end_cancelled()
        for answer in self.running[:]:
            if not answer.pending:
                yield from self._safely([answer], answer.last_pieces)
        yield from self._end()
        yield from self._admit()
        yield from self._step()
        yield from self._end()

    def _end_cancelled(self) -> Iterator[Outcome]:
        for answer in self.waiting[:]:
            if answer.cancelled():
                self.waiting.remove(answer)
                self._reader.pop(answer, None)
                if answer.is_new:
                    yield Broken(answer, Cancelled("the request"))
                else:
                    answer.reason = "cancelled"
                    yield from _ended(answer)

        for answer in self.running:
            if answer.is_reading and answer.cancelled():
                answer.reason = "cancelled"

    def _end(self) -> Iterator[Outcome]:
        for answer in self.running[:]:
            if answer.reason is not None:
                self._leave(answer)
                yield from _ended(answer)

    def _leave(self, answer: RunningAnswer) -> None:
        self.running.remove(answer)
        self._line.remove(answer)
        self.slots.leave(answer.sequence)

    def _safely(
        self, answers: list[RunningAnswer], replies: Callable[[], Iterator[Outcome]]
    ) -> Iterator[Outcome]:
        """Yield the replies; if that raises, the error ends those of the answers that are still
        running. Where it fails, those of the answers have that are still running.
        """
        try:
            yield from replies()
        except Exception as error:  # noqa: BLE001  the client gets it
            for answer in answers:
                if answer in self.running:
                    self._leave(answer)
                    yield Broken(answer, error)

    def _admit(self) -> Iterator[Outcome]:
        """Who waits enters a sequence, in the order they came; but for those whose prompt another
        answer is reading.
        """
        for answer in self.waiting[:]:
            if not self.slots.idle:
                return
            if not (yield from self._formed(answer)):
                continue
            if answer not in self._reader:
                self._reader[answer] = self.slots.reading(answer)
            reader = self._reader[answer]
            if reader in self.running and reader is not None and reader.is_reading:
                continue
            others = self.running or self.slots.lent
            if others and not self.room.admits(self.running, answer):
                return
            self.waiting.remove(answer)
            del self._reader[answer]
            sequence = self.slots.take(answer)
            answer.sequence = sequence  # `enter` may fail
            self.running.append(answer)
            self._line.append(answer)
            yield from self._safely([answer], partial(self._enter, answer))

    def _enter(self, answer: RunningAnswer) -> Iterator[Outcome]:
        """Begin an answer in its sequence, with a kept prefix if that is longer than what cells
        hold.
        """
        sequence, prefixes = answer.sequence, self.model.prefixes
        held = sequence.shared(answer.pending, answer.edits)
        found = prefixes.find(answer.pending, held, answer.edits)
        if found is not None and answer.request.prompt_logprobs is None:
            sequence.clear()
            while self.room.lacks(found.n) and self.slots.evict([sequence]):
                pass
            with closing(prefixes.restore(sequence, answer.pending, found)) as restoring:
                for n in restoring:
                    if answer.cancelled():
                        break
                    yield Progress(answer.request.id, "prefill", n, len(answer.pending))
        yield from answer.enter(sequence)

    def _formed(self, answer: RunningAnswer) -> Generator[Outcome, None, bool]:
        """True if it waits no longer for what holds it to its form, which is made beside."""
        try:
            if answer.is_ready:
                return True
        except Exception as error:  # noqa: BLE001  the client gets it
            self.waiting.remove(answer)
            yield Broken(answer, error)
            return False
        if answer not in self._forming:
            self._forming.add(answer)
            yield Progress(answer.request.id, "form", 0, 0)
        return False

    def make_room(self, n: int, n_rows: int = 0, for_others: bool = False) -> bool:
        """Find cells for so many tokens, and so many rows of pictures that layers look at: idle
        prefixes go first, then the answer that came last, which waits again. False where one had
        to: the last of all only where these are `for_others`, or others have cells.
        """
        staying = 0 if for_others or self.slots.lent else 1
        while self.room.lacks(n, n_rows):
            if self.slots.evict():
                continue
            if len(self.running) <= staying:
                break  # the step says what is missing
            youngest = self.running[-1]
            youngest.leave()
            self._leave(youngest)
            self.waiting.insert(0, youngest)
            return False
        return True

    def _step(self) -> Iterator[Outcome]:
        pieces = yield from self._pieces()
        begun = perf_counter()  # behind the pictures that pieces may show
        alone = [one for one in pieces if one.is_alone]
        together = [one for one in pieces if one not in alone]
        n_read = sum(len(one.part) for one in pieces if one.answer.is_reading)
        n_written = sum(not one.answer.is_reading for one in pieces)
        n_reading = sum(one.is_reading for one in self.running)
        only_writes = bool(together) and not n_read and not alone
        if only_writes:
            together = self._with_drafts(together)
        n_before = sum(one.answer.tally.n_generated for one in pieces)
        if len(together) == 1 and (n_read or len(together[0].tokens) == 1):
            alone += together
        elif together:
            answers = [one.answer for one in together]
            yield from self._safely(answers, partial(self._together, together))
        for one in alone:
            if one.answer in self.running:
                yield from self._safely([one.answer], partial(self._alone, one))
        seconds = perf_counter() - begun
        if only_writes:
            n = sum(one.answer.tally.n_generated for one in pieces) - n_before
            parts = [(one.answer, len(one.tokens), len(one.draft.tokens)) for one in together]
            self._ahead.took(parts, n, seconds)
        if not any(one.draft.tokens for one in together):
            self._pace.took(n_written, n_read, seconds, n_reading)

    def _with_drafts(self, pieces: list[Piecemeal]) -> list[Piecemeal]:
        """Pieces of answers that are written, with the drafts that are worth computing, as far as
        there are cells for them.
        """
        n_rows = sum(len(one.part) for one in pieces)
        drafts = self._ahead.drafts([one.answer for one in pieces], n_rows)
        n_drafted = sum(len(draft.tokens) for draft in drafts)
        if not n_drafted or self.room.lacks(n_rows + n_drafted):
            return pieces
        return [one._replace(draft=draft) for one, draft in zip(pieces, drafts, strict=True)]

    def _pieces(self) -> Generator[Outcome, None, list[Piecemeal]]:
        """Yields how pictures are encoded; returns what the step computes: the tokens that were
        drawn, and of prompts as much as the pace allows.
        """
        pieces: list[Piecemeal] = []
        writing = [one for one in self.running if not one.is_reading]
        reading = [one for one in self._line if one.is_reading]
        left = self._pace.piece(len(writing), [len(one.pending) for one in reading])
        for answer in (*writing, *reading):
            if answer.is_reading and left <= 0:
                break
            try:
                part, extras = yield from answer.part(left)
            except Cancelled:
                answer.reason = "cancelled"
                continue
            except Exception as error:  # noqa: BLE001  the client gets it
                self._leave(answer)
                yield Broken(answer, error)
                continue
            if answer.is_reading:
                left -= len(part)
                self._line.remove(answer)
                self._line.append(answer)
            pieces.append(Piecemeal(answer, part, extras))
        return pieces

    def _together(self, pieces: list[Piecemeal]) -> Iterator[Outcome]:
        """One step of several."""
        while not self.make_room(sum(len(one.tokens) for one in pieces)):
            pieces = [one for one in pieces if one.answer in self.running]
        wanted = [one.n_outputs for one in pieces]
        joined = [
            one.answer.sequence.joining(one.tokens, n)
            for one, n in zip(pieces, wanted, strict=True)
        ]
        places = [at for _, at in joined if at is not None]
        extras = Extras(places=np.concatenate(places, 1) if places else None)
        best = all(one.answer.output is Output.BEST for one in pieces)
        output = Output.BEST if best else None
        parts = [part for part, _ in joined]
        finish = self.model.stepper.start_together(parts, extras=extras, output=output)
        for one in pieces:
            if not one.answer.is_reading:
                one.answer.watch.shared()
        try:
            for one in pieces:
                yield from self._safely([one.answer], one.answer.last_pieces)
        finally:
            logits = finish()
        rows: list[Row] = [best_of(one) for one in logits] if best else list(logits)
        row = first = 0
        for one, n in zip(pieces, wanted, strict=True):
            yield from self._taken_together(one, finish, row, rows[first : first + n])
            row, first = row + len(one.tokens), first + n

    def _taken_together(
        self, one: Piecemeal, step: StartedStep, row: int, rows: Sequence[Row]
    ) -> Iterator[Outcome]:
        """A piece was computed at `row` of a step, with these logits [n, V] behind its last rows:
        of its draft only what is drawn stays.
        """
        answer, sequence = one.answer, one.answer.sequence
        first = len(sequence.items)
        sequence.computed(one.part)
        if not one.draft.tokens:
            yield from self._taken(one, rows[-1] if len(rows) else NO_LOGITS)
            return
        again: list[Item] = []

        def taken() -> Iterator[Outcome]:
            try:
                replies = answer.take_drafted(one.part, one.draft, rows[len(one.part) - 1 :])
            finally:
                again.extend(sequence.settle(step, row, first, len(one.tokens)))
            answer.go_back(again)
            yield from replies

        yield from self._safely([answer], taken)

    def _alone(self, one: Piecemeal) -> Iterator[Outcome]:
        """A step of one."""
        while not self.make_room(len(one.part), one.n_rows):
            if one.answer not in self.running:
                return
        finish = one.answer.begin(one.part, one.extras)
        try:
            yield from self._safely([one.answer], one.answer.last_pieces)
        finally:
            row = finish()
        yield from self._taken(one, row)

    def _taken(self, one: Piecemeal, row: Row) -> Iterator[Outcome]:
        if one.answer in self.running:
            yield from self._safely([one.answer], partial(one.answer.take, one.part, row))


def _ended(answer: RunningAnswer) -> Iterator[Outcome]:
    """The last that an answer shows, which is in no sequence any more."""
    try:
        yield from answer.end()
    except Exception as error:  # noqa: BLE001  the client gets it
        yield Broken(answer, error)
