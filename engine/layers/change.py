"""Parts of a layer that count more or less than they were trained to."""

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.protocol import Change, ChangedPart


@dataclass(frozen=True)
class Changes:
    """Factors of a forward pass; where several name one part, they are multiplied."""

    wanted: tuple[Change, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.wanted)

    def factor(self, layer: int, part: ChangedPart) -> float:
        """The factor of a layer's part."""
        same = (c for c in self.wanted if (c.layer, c.part, c.head) == (layer, part, None))
        return prod(c.factor for c in same)

    def heads(self, layer: int, n_head: int) -> NDArray[np.float32] | None:
        """Factors of a layer's heads [H]; None where each counts as it is."""
        mine = [c for c in self.wanted if c.layer == layer and c.head is not None]
        factors = np.ones(n_head, np.float32)
        for change in mine:
            factors[change.head] *= change.factor
        return factors if mine else None

    def keeps(self, layer: int) -> bool:
        """True if anything of a layer is left."""
        return self.factor(layer, "layer") != 0.0

    def moves(self, layer: int) -> bool:
        """True if a layer's whole contribution is multiplied."""
        return self.factor(layer, "layer") != 1.0

    def of(self, x: Tensor, layer: int, part: ChangedPart) -> Tensor:
        """A part's contribution, x of any shape, times its factor where there is one."""
        factor = self.factor(layer, part)
        return x if factor == 1.0 else ops.scale(x, factor)

    def between(self, before: Tensor, after: Tensor, layer: int) -> Tensor:
        """The layer's result with its contribution scaled: before + factor * (after - before)."""
        added = ops.scale(ops.sub(after, before), self.factor(layer, "layer"))
        return ops.add(before, added).named("l_out_changed", layer)


UNCHANGED = Changes()
