"""One view of a picture as a tower's inputs, and one pass of a tower, which declares them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.gguf.formats import F32, I32, Format
from engine.graph import ops
from engine.graph.tensor import Role, Tensor, leaf

Array = NDArray[np.generic]
Ints = NDArray[np.int32]

EVERYTHING = ""
"""The sight of towers whose patches all see each other."""


@dataclass(frozen=True)
class TowerStep:
    """One view's numbers: `n` patches, of which the tower makes `rows` rows of embeddings.

    `inputs` are what the tower's forward pass requests, by name and in reversed shapes; the first
    axis counts patches (or what stands for them) and is padded to the plan's bucket.
    """

    n: int
    rows: int
    inputs: Mapping[str, Array] = field(default_factory=dict)


Fill = Callable[[TowerStep], Array]


class TowerPass:
    """One pass of a tower over `n` patches: the inputs that it has requested so far, and the
    results of the blocks behind which it may be left.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self.pauses: list[Tensor] = []
        self._inputs: dict[str, tuple[Tensor, Fill]] = {}
        self._cells = 1

    def merged(self, cells: int) -> "TowerPass":
        """The same pass from where runs of `cells` patches have become one each."""
        rest = TowerPass(self.n // cells)
        rest.pauses, rest._inputs, rest._cells = self.pauses, self._inputs, self._cells * cells
        return rest

    def fill(self, step: TowerStep) -> dict[Tensor, Array]:
        """The value of every input for a view, in reversed shapes, padded with zeros at the end."""
        return {tensor: padded(make(step), tensor) for tensor, make in self._inputs.values()}

    def floats(self, name: str, *shape: int) -> Tensor:
        """f32, of the step's input of that name."""
        return self._input(name, F32, shape, lambda s: s.inputs[name])

    def ints(self, name: str, *shape: int) -> Tensor:
        """i32, of the step's input of that name; ids of padding are 0."""
        return self._input(name, I32, shape, lambda s: s.inputs[name])

    def pause(self, x: Tensor) -> Tensor:
        """x, the result of a block."""
        self.pauses.append(x)
        return x

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, scale: float, sight: str = EVERYTHING
    ) -> Tensor:
        """q [D, H, T], k [D, K, T] and v [Dv, K, T] of the same pass -> [Dv * H, T].

        T is `n`, or more where class rows stand among the patches. `sight` names who sees whom:
        the step then has `<sight>_spans` and `<sight>_cells`, as `groups` makes them.
        """
        spans, cells = self._sight(sight, q.shape[2])
        return self._attended(q, k, v, spans, cells, scale)

    def look(self, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        """Queries q [D, H, R] of a projector's own at all patches, k [D, K, n] and v [Dv, K, n]
        -> [Dv * H, R].
        """
        count = q.shape[2]
        everything = groups("all", np.zeros(count, np.int32))["all_spans"]
        spans = self._input(f"query_spans_{count}", I32, (4, count), lambda s: everything)
        _, cells = self._sight(EVERYTHING, k.shape[2])
        return self._attended(q, k, v, spans, cells, scale)

    def _attended(
        self, q: Tensor, k: Tensor, v: Tensor, spans: Tensor, cells: Tensor, scale: float
    ) -> Tensor:
        more, cells_each = k.shape[2] - self.n, self._cells
        n_kv = self._input(
            f"n_kv_{more}_{cells_each}",
            *(I32, (1,)),
            lambda s: np.array([s.n // cells_each + more], np.int32),
        )
        mixed = ops.attention(q, k, v, spans, cells, n_kv, scale=scale)
        return mixed.reshape(mixed.shape[0] * mixed.shape[1], q.shape[2])

    def _sight(self, sight: str, total: int) -> tuple[Tensor, Tensor]:
        if sight:
            return self.ints(f"{sight}_spans", 4, total), self.ints(f"{sight}_cells", 2, total)

        def same(step: TowerStep) -> dict[str, Ints]:
            return groups("all", np.zeros(step.n // self._cells + total - self.n, np.int32))

        spans = self._input(f"all_spans_{total}", I32, (4, total), lambda s: same(s)["all_spans"])
        cells = self._input(f"all_cells_{total}", I32, (2, total), lambda s: same(s)["all_cells"])
        return spans, cells

    def _input(self, name: str, fmt: Format, shape: Sequence[int], fill: Fill) -> Tensor:
        if name not in self._inputs:
            self._inputs[name] = leaf(f"v/inp_{name}", fmt, shape, Role.INPUT), fill
        return self._inputs[name][0]


def groups(sight: str, numbers: Ints) -> dict[str, Ints]:
    """The inputs of a sight where those of equal number see each other: numbers i32 [T]."""
    one, none = np.ones_like(numbers), np.zeros_like(numbers)
    return {
        f"{sight}_spans": np.stack([one, numbers, numbers, none], 1),
        f"{sight}_cells": np.stack([one, numbers], 1),
    }


def padded(values: Array, tensor: Tensor) -> Array:
    """`values` with zeros behind them, as many as the tensor's last dimension has more."""
    missing = tensor.shape[values.ndim - 1] - len(values)
    if not missing:
        return values
    return np.concatenate([values, np.zeros((missing, *values.shape[1:]), values.dtype)])


def bucket_of(n: int, cells: int) -> int:
    """The smallest plan that holds n patches: runs of `cells` patches, 4, 6, 8, 12, 16 ... of them.

    So that padding is at most half of what is there, from 4 runs on.
    """
    runs, size = -(-n // cells), 4
    while size < runs:
        if size * 3 // 2 >= runs:
            return size * 3 // 2 * cells
        size *= 2
    return size * cells
