"""True if there are cells for what answers want, and who else has a sequence."""

from collections.abc import Iterable

import numpy as np

from engine.kvcache.causal import BITS, CausalCache
from engine.runner.answering.answer import RunningAnswer
from engine.runner.answering.slots import Lent, Slots
from engine.runner.loading import LoadedModel


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
        known = max((one.shared(answer.pending) for one in self.slots.known), default=0)
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
