"""Which slot holds the recurrent state after which tokens. No device, no tensor.

A recurrent layer keeps one value for all tokens so far. A slot has room for those of all layers.
For each of its sequences a step reads one slot and writes another, so that a step that fails leaves
no trace; and a slot is as good as it was until it is written over: a sequence can go on from any of
its slots.

A slot holds the bits of the sequences whose state it is, and how many tokens that state has read; a
free slot has no bit. A step writes over a free slot, else over the one that was used longest ago,
and last of all over one that is kept. Where a sequence is, it is never written over.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.errors import NotSupported


@dataclass(frozen=True)
class StatePart:
    """`count` tokens of a sequence, the first at `position`."""

    sequence: int
    position: int
    count: int


@dataclass(frozen=True)
class StateStep:
    """Slots that a step of a part reads and writes: `source` is a slot or -1, a state that has read
    nothing; `target` is another slot.
    """

    source: int
    target: int
    part: StatePart


class StateCache:
    """The slots of the recurrent states. Without any it holds nothing and forbids nothing: the
    model has no such layers.
    """

    def __init__(self, n_slots: int) -> None:
        self.n_slots = n_slots
        self.bits: NDArray[np.int32] = np.zeros(n_slots, np.int32)
        self.read: NDArray[np.int32] = np.zeros(n_slots, np.int32)
        """How many tokens the slot's state has read: the position of the one that follows."""
        self.kept: NDArray[np.bool_] = np.zeros(n_slots, np.bool_)
        self._used: NDArray[np.int64] = np.zeros(n_slots, np.int64)

    def start(self, parts: Iterable[StatePart]) -> list[StateStep]:
        """Take a slot for the state behind each part, of different sequences; it is nobody's until
        `done`. Empty without slots. Raises `NotSupported`, before anything is changed, where no
        slot holds the state before one.
        """
        if not self.n_slots:
            return []
        found = [(part, self._slot(part.sequence, part.position)) for part in parts]
        for part, source in found:
            if source < 0 < part.position:
                at = f"continuing at token {part.position}"
                raise NotSupported(f"{at} without the recurrent state there")
        steps: list[StateStep] = []
        for part, source in found:
            target = self._least([step.target for step in steps])
            self.bits[target] = 0
            self.kept[target] = False
            if source >= 0:
                self._touch(source)
            steps.append(StateStep(source, target, part))
        return steps

    def done(self, steps: Iterable[StateStep]) -> None:
        """The steps' slots hold what they were to: the sequences go on from there."""
        for step in steps:
            part = step.part
            self.read[step.target] = part.position + part.count  # first: a bit makes it count
            self.bits[step.target] = 1 << part.sequence
            self._touch(step.target)

    def place(self, sequence: int, n: int) -> int:
        """Take a slot for a sequence's state behind n tokens, which is filled from elsewhere."""
        target = self._least([])
        self.read[target], self.bits[target], self.kept[target] = n, 1 << sequence, True
        self._touch(target)
        return target

    def held(self, sequence: int, n: int) -> dict[int, int]:
        """The slots of a sequence's states that have read at most n tokens, by their counts."""
        mine = np.flatnonzero(self._of(sequence) & (self.read <= n))
        return {int(self.read[slot]): int(slot) for slot in mine}

    def keep(self, sequence: int) -> None:
        """Write over the sequence's present state only where there is nothing else."""
        latest = self._latest(sequence)
        if latest >= 0:
            self.kept[latest] = True

    def remove(self, sequence: int, begin: int, end: int | None = None) -> None:
        """Forget the states that have read the token at `begin`. Raises `NotSupported`, before
        anything is changed, where tokens behind `end` are to stay, or where no state is left to go
        on from at `begin`.
        """
        latest = self._latest(sequence)
        if latest < 0 or self.read[latest] <= begin:
            return
        if end is not None and end < self.read[latest]:
            raise NotSupported("forgetting tokens in the middle of what a recurrent state has read")
        if begin > 0 and self._slot(sequence, begin) < 0:
            raise NotSupported(f"going back to token {begin} without the recurrent state there")
        self.bits[self.read > begin] &= ~(1 << sequence)
        self.kept &= self.bits != 0

    def share(self, sequence: int, source: int, end: int) -> None:
        """Let an empty sequence go on from the source's states that have read no token from `end`
        on: the same slots, of which none is written. `remove` undoes it.
        """
        shared = self._of(source) & (self.read <= end)
        self.bits[shared] |= 1 << sequence

    def resumable(self, sequence: int, n: int) -> int:
        """The last position up to `n` at which the sequence can go on."""
        if not self.n_slots:
            return n
        return int(self.read[self._of(sequence) & (self.read <= n)].max(initial=0))

    def clear(self) -> None:
        """Forget everything."""
        self.bits[:] = 0
        self.kept[:] = False

    def _of(self, sequence: int) -> NDArray[np.bool_]:
        held: NDArray[np.bool_] = (self.bits & (1 << sequence)) != 0
        return held

    def _slot(self, sequence: int, position: int) -> int:
        """The slot of a sequence's state before the token at `position`; -1 for none."""
        found = np.flatnonzero(self._of(sequence) & (self.read == position))
        return int(found[0]) if found.size else -1

    def _latest(self, sequence: int) -> int:
        """The slot of the state that has read the most; -1 for none."""
        mine = np.flatnonzero(self._of(sequence))
        return int(mine[self.read[mine].argmax()]) if mine.size else -1

    def _least(self, taken: Sequence[int]) -> int:
        """The slot to be written over, none of those `taken`."""
        sequences = np.bitwise_or.reduce(self.bits, initial=0)
        present = {self._latest(i) for i in range(int(sequences).bit_length())}
        free = [slot for slot in range(self.n_slots) if slot not in present and slot not in taken]
        return min(free, key=lambda i: (self.bits[i] != 0, self.kept[i], self._used[i]))

    def _touch(self, slot: int) -> None:
        self._used[slot] = self._used.max() + 1


def read_from(steps: Sequence[StateStep], n: int) -> NDArray[np.int32]:
    """i32 [n, 2]: of each of a step's parts the slot that it reads, and where its tokens end; then
    parts without tokens.
    """
    ends = np.cumsum([step.part.count for step in steps])
    at = np.full((n, 2), -1, np.int32)
    at[: len(steps), 0] = [step.source for step in steps]
    at[: len(steps), 1] = ends
    at[len(steps) :, 1] = ends[-1]
    return at


def written_to(steps: Sequence[StateStep], n: int) -> NDArray[np.int32]:
    """i32 [n]: the slot that each of a step's parts writes, -1 for those without tokens."""
    to = np.full(n, -1, np.int32)
    to[: len(steps)] = [step.target for step in steps]
    return to
