"""Which sequence answers which request: prefixes that are held are reused, the oldest forgotten."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from engine.errors import SequenceBusy
from engine.runner.answering.answer import RunningAnswer
from engine.runner.edits import SequenceEdits, common
from engine.runner.loading import LoadedModel
from engine.runner.pictures.items import Item
from engine.runner.prefixes.kept import LOST
from engine.runner.sequence import Sequenced

ALIKE = 0.1
"""The share of a prompt from which on a sequence is gone on with that begins so."""
WORTH_WAITING = 32
"""Items of a prompt that another answer is about to read: fewer are read twice."""


@dataclass
class Lent:
    """A sequence that no answer has for now, for so many tokens as are `wanted`."""

    sequence: Sequenced
    wanted: int = 0


class Slots:
    """The sequences of a model, each of one answer at a time. One that is idle keeps its items
    until it is needed for something else, or its cells are.
    """

    def __init__(self, model: LoadedModel) -> None:
        self.model = model
        numbers = range(model.built.n_sequences)
        several = len(numbers) > 1  # of people who must not see each other's text
        self.sequences = [
            Sequenced(model.stepper, model.viewer, number=n, is_strict=several) for n in numbers
        ]
        self.held: dict[int, RunningAnswer] = {}
        """The answer of each sequence that has one, by its number."""
        self.lent: dict[int, Lent] = {}
        """Those that are used for something else, by their numbers."""
        self._order = list(self.sequences)  # by when they were used, the latest last

    @property
    def idle(self) -> list[Sequenced]:
        """Sequences that nobody uses, the one used last at the end."""
        taken = self.held.keys() | self.lent.keys()
        return [one for one in self._order if one.number not in taken]

    @property
    def known(self) -> list[Sequenced]:
        """Sequences of which others may share what they hold, the one used last at the end."""
        return [one for one in self._order if one.number not in self.lent]

    @property
    def latest(self) -> Sequenced:
        """The idle sequence that was used last; where none is idle, of all."""
        return (self.idle or self._order)[-1]

    def nearest(self, items: Sequence[Item], edits: SequenceEdits) -> Sequenced:
        """The sequence that holds most of what these begin with, of equal ones that used last."""
        return max(reversed(self.known), key=lambda one: one.shared(items, edits))

    def reading(self, answer: RunningAnswer) -> RunningAnswer | None:
        """The answer that reads what the prompt of this one begins with, too, and has not come as
        far as to share it: it is read once.
        """
        items = answer.pending
        known = max((one.shared(items, answer.edits) for one in self.known), default=0)
        for other in self.held.values():
            if other.is_reading:
                coming = _alike((*other.sequence.items, *other.pending), items)
                coming = common(coming, other.edits, answer.edits)
                if coming - known >= WORTH_WAITING:
                    return other
        return None

    def take(self, answer: RunningAnswer) -> Sequenced:
        """An idle sequence for what is pending of an answer, which it holds until `leave`. One that
        begins so goes on, unless it would lose more than that; else the one that was used longest
        ago shares what any other holds.
        """
        chosen = self._chosen(answer.pending, answer.edits)
        self.held[chosen.number] = answer
        chosen.is_held = True
        self._used(chosen)
        return chosen

    @contextmanager
    def lend(self) -> Iterator[Lent]:
        """The idle sequence that is missed least, for something else than an answer, as long as
        this lasts; nobody shares what it holds meanwhile. Raises `SequenceBusy` where all are in
        use.
        """
        idle = self.idle
        if not idle:
            raise SequenceBusy
        lent = Lent(next((one for one in idle if not one.items), idle[0]))
        self.lent[lent.sequence.number] = lent
        lent.sequence.is_held = True
        try:
            yield lent
        finally:
            del self.lent[lent.sequence.number]
            lent.sequence.is_held = False
            self._used(lent.sequence)

    def share(self, sequence: Sequenced, items: Sequence[Item], edits: SequenceEdits) -> None:
        """Have a sequence go on from what any other holds of these items, if that is more."""
        source = max(self.known, key=lambda one: one.shared(items, edits), default=sequence)
        n = source.shared(items, edits)
        if n > sequence.shared(items, edits):
            sequence.fork(source, n, edits)

    def _chosen(self, items: Sequence[Item], edits: SequenceEdits) -> Sequenced:
        """An idle sequence to go on with so, its own cells or others' shared."""
        idle, known = self.idle, self.known
        shared = {one.number: one.shared(items, edits) for one in known}
        near = max(reversed(idle), key=lambda one: shared[one.number])
        n = shared[near.number]
        oldest = next((one for one in idle if not one.items), idle[0])
        loses = 2 * n < len(near.items)
        chosen = near if n > ALIKE * len(items) and not loses else oldest
        if len(chosen.items) - shared[chosen.number] > LOST:
            self.model.prefixes.remember(chosen)
        self.share(chosen, items, edits)
        return chosen

    def leave(self, sequence: Sequenced) -> None:
        """Its answer has ended; what it holds stays for now."""
        self.held.pop(sequence.number, None)
        sequence.is_held = False
        self._used(sequence)

    def evict(self, spared: Iterable[Sequenced] = ()) -> bool:
        """Forget the idle sequence that was used longest ago; False where none holds anything."""
        kept = [one.number for one in spared]
        for one in self.idle:
            if one.items and one.number not in kept:
                self.model.prefixes.remember(one)
                one.clear()
                return True
        return False

    def only(self, sequence: Sequenced) -> None:
        """Give all cells to one sequence; nobody answers."""
        while self.evict([sequence]):
            pass

    def _used(self, sequence: Sequenced) -> None:
        self._order.remove(sequence)
        self._order.append(sequence)


def _alike(held: Sequence[Item], wanted: Sequence[Item]) -> int:
    """How many items they begin with are the same."""
    pairs = enumerate(zip(held, wanted, strict=False))
    most = min(len(held), len(wanted))
    return next((i for i, (one, other) in pairs if one != other), most)
