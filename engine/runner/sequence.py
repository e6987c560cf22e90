"""One sequence of a model: which items its caches hold, reuse of a common prefix, shifting."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.errors import BadSetting, Cancelled, CannotSee, CutawayError
from engine.kvcache.encoded import Entering
from engine.models.base import Output
from engine.runner.batch import MAX_BATCH
from engine.runner.edits import ALL, PLAIN, SequenceEdits, common
from engine.runner.pictures.items import (
    EncodedText,
    Item,
    before_group,
    before_looking,
    ends,
    places,
    runs,
    saved,
    tokens_of,
    whole,
)
from engine.runner.pictures.viewer import Encoding, Viewer
from engine.runner.stepper import TEXT, Extras, Logits, StartedStep, StepPart, Stepper
from engine.scheduler.probes import NO_PROBES, Probes
from engine.scheduler.record import UNRECORDED, Recorder

CHECKPOINT_EVERY = 2048
"""Tokens from one kept state of a recurrent model to the next."""


@dataclass
class Sequenced:
    """`items` are exactly those that the caches hold of the sequence `number`, in order of their
    positions: tokens, and where there is a viewer rows of pictures. It `is_held` while an answer
    uses it, or something else does. Behind the first `exact` items, others have seen what a shift
    has forgotten since: one that `is_strict` shares no such items. At its `turn` the next prompt is
    expected to part from this one. Steps compute it with its `edits`. It is a part of a `chat`,
    None where it is not to be kept on the disk.
    """

    stepper: Stepper
    viewer: Viewer | None = None
    items: list[Item] = field(default_factory=list)
    number: int = 0
    n_shifts: int = 0
    turn: int = 0
    is_held: bool = False
    is_strict: bool = False
    exact: int = ALL
    edits: SequenceEdits = PLAIN
    chat: str | None = None

    @property
    def n_ctx(self) -> int:
        return self.stepper.built.n_ctx

    def clear(self) -> None:
        """Forget all of it."""
        self.items, self.exact, self.edits, self.chat = [], ALL, PLAIN, None
        self.stepper.forget(0, sequence=self.number)

    def shared(self, prompt: Sequence[Item], edits: SequenceEdits | None = None) -> int:
        """How many items at the prompt's start need not be computed again with these edits, by
        default its own.

        They end in no group of rows that see each other. At least one item of the prompt is left to
        compute, for its logits.
        """
        n = 0
        for held, wanted in zip(self.items, prompt[:-1], strict=False):
            if held != wanted:
                break
            n += 1
        n = common(n, self.edits if edits is None else edits, self.edits)
        if self.is_strict:
            n = min(n, self.exact)
        before = -1
        while n != before:
            before = n
            n = before_group(prompt, before_group(self.items, n))
            n = self.stepper.built.caches.resumable(self.number, n)
        return n

    def reuse(
        self, prompt: Sequence[Item], turn: int = 0, edits: SequenceEdits | None = None
    ) -> int:
        """Keep the cached prefix that is `shared` with the prompt, forget the rest; go on with
        these edits, by default as before. Returns its length. Another prompt is expected to be the
        same up to `turn`.

        Logits of what follows equal a fresh context's but for their last bits (other kernels
        compute a short rest), unless the context was shifted: then what is kept has seen items that
        are gone.
        """
        n = self.shared(prompt, edits)
        self.items = []  # until the caches are known to hold them
        self.stepper.forget(n, sequence=self.number)
        self.items, self.turn = list(prompt[:n]), turn
        self.edits = self.edits if edits is None else edits
        if n <= self.exact:
            self.exact = ALL
        return n

    def prefill(
        self,
        items: Sequence[Item],
        cancelled: Callable[[], bool],
        begin: Callable[[Sequence[Item], Extras], Callable[[], Logits]] | None = None,
        most: int | None = None,
    ) -> Generator[int | Encoding, None, Logits]:
        """Compute the items in batches of at most `most`, by default of as many as take a few
        seconds, each started by `begin` (usually the method of that name), yielding how many are
        done and how far the tower is with a picture; returns logits [V] after the last. Raises
        `Cancelled`, `UnknownPictures`.
        """
        done = 0
        while True:
            if cancelled():
                raise Cancelled("reading the prompt")
            part = self.part(items[done:], most or self.stepper.patience.most)
            extras = yield from self.extras(part, cancelled)
            logits = (begin or self.begin)(part, extras)()
            done += len(part)
            yield done
            if done == len(items):
                return logits

    def part(self, items: Sequence[Item], most: int = MAX_BATCH) -> list[Item]:
        """The first of the items that follow, for one step of at most so many, or of one group
        whose rows see each other.
        """
        end = before_group(items, min(most, len(items)))
        end = end or before_group(items, min(MAX_BATCH, len(items)))
        part = items[: before_looking(items, 0, self._before_checkpoint(items, end))]
        assert part, "a group fits a batch"
        return list(part)

    def begin(
        self,
        part: Sequence[Item],
        extras: Extras,
        recorder: Recorder = UNRECORDED,
        probes: Probes = NO_PROBES,
        output: Output | None = None,
    ) -> StartedStep:
        """Start computing the items that follow, with what `extras` gave for them. What is returned
        waits for the logits [V] after the last, or another `output`, and records the items; call it
        before anything else.
        """
        tokens, outputs = tokens_of(part), [len(part) - 1]
        ours = StepPart(tokens, len(self.items), outputs, self.number, self.edits)
        step = self.stepper.start_together([ours], recorder, extras, probes, output)

        def logits() -> Logits:
            row = _row(step())
            self.computed(part)
            return row

        return StartedStep(logits, step.plan, step.axes, step.real)

    def begin_all(self, part: Sequence[Item], extras: Extras) -> Callable[[], Logits]:
        """Like `begin`, for logits [t, V] behind all t items, at most `Stepper.most_outputs`."""
        tokens, outputs = tokens_of(part), range(len(part))
        ours = StepPart(tokens, len(self.items), outputs, self.number, self.edits)
        step = self.stepper.start_together([ours], extras=extras)

        def logits() -> Logits:
            rows = step()
            self.computed(part)
            return rows

        return logits

    def joining(
        self, part: Sequence[Item], n_wanted: int
    ) -> tuple[StepPart, NDArray[np.int32] | None]:
        """The tokens that follow, and their places, for a step with parts of other sequences; then
        call `computed`. Logits are wanted of the last so many.
        """
        outputs = range(len(part) - n_wanted, len(part))
        step = StepPart(tokens_of(part), len(self.items), outputs, self.number, self.edits)
        return step, None if self.viewer is None else self._places(part)

    def computed(self, part: Sequence[Item]) -> None:
        """The caches hold these items now, too."""
        self.items += part
        if len(self.items) == self.turn or not len(self.items) % CHECKPOINT_EVERY:
            self.keep()

    def most_ahead(self, n_pending: int) -> int:
        """How many drafted tokens may follow so many pending ones in a step: the context has room
        for one more, and no state that is to be kept is passed.
        """
        end = len(self.items) + n_pending
        room = self.n_ctx - 1 - end
        if not self.stepper.built.caches.states.n_slots:
            return room
        behind = len(self.items) % CHECKPOINT_EVERY
        return min(room, CHECKPOINT_EVERY - behind - n_pending)

    def settle(self, step: StartedStep, row: int, first: int, n: int) -> list[Item]:
        """Forget the drafts that a step computed behind what is recorded by now: of `n` tokens from
        its `row` on, the first at the position `first`. Returns the items that are to be computed
        again: a recurrent state goes back to before the step.
        """
        n_kept = len(self.items) - first
        if n_kept == n:
            return []
        if not self.stepper.built.caches.states.n_slots:
            self.stepper.drop(self.number, step, row + n_kept, row + n)
            return []
        self.items, again = self.items[:first], self.items[first:]
        self.stepper.forget(first, sequence=self.number)
        return again

    def fork(self, source: "Sequenced", n: int, edits: SequenceEdits = PLAIN) -> None:
        """Go on with these edits behind the first items of another sequence, whose cells both hold
        from now on; what was here is forgotten. They are at most as many as `source.shared` says.
        """
        self.items, self.turn, self.exact, self.edits = [], 0, ALL, edits
        self.stepper.forget(0, sequence=self.number)
        self.stepper.share(self.number, source.number, n)
        self.items = source.items[:n]

    def keep(self) -> None:
        """Be able to go back to here, where layers are recurrent."""
        self.stepper.built.caches.states.keep(self.number)

    def _before_checkpoint(self, items: Sequence[Item], end: int) -> int:
        """The most items up to `end` behind which no state is to be kept but the last."""
        if not self.stepper.built.caches.states.n_slots:
            return end
        now = len(self.items)
        following = now + CHECKPOINT_EVERY - now % CHECKPOINT_EVERY
        wanted = min(n for n in (following, self.turn) if n > now)
        return before_group(items, min(end, wanted - now)) or end

    def extras(
        self, part: Sequence[Item], cancelled: Callable[[], bool]
    ) -> Generator[Encoding, None, Extras]:
        """Return the effect of pictures, in this part or before it, or of a prompt for an encoder
        on its step. Yields how far the tower is with a picture. Raises `Cancelled`, `CannotSee`,
        `UnknownPictures`.
        """
        texts = [(i, item) for i, item in enumerate(part) if isinstance(item, EncodedText)]
        if texts:
            ((i, item),) = texts
            text = Entering(self.stepper.encode(item.text, cancelled), len(self.items) + i)
            return Extras(entering=(text,))
        if self.viewer is None:
            if any(runs(part)):
                raise CannotSee
            return TEXT
        rows = yield from self.viewer.rows(part, cancelled)
        entering = yield from self.viewer.entering(part, len(self.items), cancelled)
        return Extras(rows, self._places(part), ends(part, len(self.items)), entering)

    def _places(self, part: Sequence[Item]) -> NDArray[np.int32] | None:
        """By what keys turn, where that is not their position."""
        assert self.viewer is not None
        if not self.stepper.built.has_sections:
            return None
        return places(self.viewer.tower, self.items, part)

    def append(self, token: int) -> Logits:
        """Compute one token; logits [V] after it."""
        return self.start(token)()

    def start(
        self,
        token: int,
        recorder: Recorder = UNRECORDED,
        probes: Probes = NO_PROBES,
        output: Output | None = None,
    ) -> StartedStep:
        """Like `begin`, of one token."""
        at = None if self.viewer is None else self._places([token])
        extras = TEXT if at is None else Extras(places=at)
        return self.begin([token], extras, recorder, probes, output)

    def shift(self, keep: int, cancelled: Callable[[], bool]) -> list[Item]:
        """Like `make_room`, and what stays is computed again at once. Raises also `Cancelled`."""
        gone, again = self.make_room(keep)
        if again:
            for _ in self.prefill(again, cancelled):
                pass
        return gone

    def make_room(self, keep: int) -> tuple[list[Item], list[Item]]:
        """Make room for half a context: forget the oldest of what follows the first `keep` items,
        of pictures all or nothing. Returns what was forgotten, and what is to be computed again.

        Does nothing where there is such room. All that stays is to be computed again where keys
        cannot be turned, or a recurrent state has read what is to be forgotten: the sequence is
        empty then. Raises `BadSetting` where nothing may go.
        """
        if keep >= self.n_ctx:
            raise BadSetting("keep", keep, f"fewer tokens than the context of {self.n_ctx}")
        room = max((self.n_ctx - keep) // 2, 1)
        discard = room - (self.n_ctx - len(self.items))
        if discard <= 0:
            return [], []
        begin, end = whole(self.items, keep, keep, discard)
        gone = self.items[begin:end]
        kept = self.items[:begin] + self.items[end:]
        self.items, self.turn = [], 0  # until the caches are known to hold them
        self.n_shifts += 1
        self.edits = self.edits.shifted(begin, end - begin)
        try:
            self.stepper.forget(begin, end, self.number, end - begin - saved(gone))
        except (CutawayError, MemoryError):
            self.stepper.forget(0, sequence=self.number)
            self.exact = ALL
            return gone, kept
        self.items, self.exact = kept, min(self.exact, begin)
        return gone, []


def _row(logits: Logits) -> Logits:
    row: Logits = logits[0]
    return row
