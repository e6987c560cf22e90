"""What a graph means: NumPy in float64 and the `gguf` package, with nothing of the engine's own.

Storages are flat arrays of numbers; a tensor is a view of one. Results are rounded to f16, bf16 and
blocks, not to f32.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.gguf.formats import BF16, F16
from engine.graph.op import VIEW_OPS, Op
from engine.graph.tensor import Tensor
from tests.engine.selftest.definitions import OPS, WRITES
from tests.engine.selftest.numbers import Array, decoded, rounded, viewed

Values = Mapping[Tensor, NDArray[Any]]


def exact(node: Tensor, values: Values) -> Array:
    """The numbers of `node` in reversed shape; `values` has the leaves as they are stored."""
    return Oracle(values).of(node)


class Oracle:
    def __init__(self, values: Values) -> None:
        self._values = values
        self._storages: dict[Tensor, Array] = {}

    def of(self, tensor: Tensor) -> Array:
        return viewed(self._storage(tensor), tensor).copy()

    def _storage(self, tensor: Tensor) -> Array:
        """All of what the tensor lies in, flat, once it is computed."""
        if tensor not in self._storages:
            self._storages[tensor] = self._made(tensor)
        return self._storages[tensor]

    def _made(self, tensor: Tensor) -> Array:
        if tensor.op is Op.NONE:
            return decoded(self._values[tensor], tensor.fmt).reshape(-1)
        if tensor.op in VIEW_OPS:
            assert tensor.src[0] is not None
            return self._storage(tensor.src[0])
        if tensor.op in WRITES:
            target, *others = (s for s in tensor.src if s is not None)
            whole = self._storage(target).copy()
            WRITES[tensor.op](viewed(whole, target), tensor, *map(self.of, others))
            return whole
        sources = [None if s is None else self.of(s) for s in tensor.src]
        result = np.ascontiguousarray(OPS[tensor.op](tensor, *sources)).reshape(-1)
        return rounded(result, tensor.fmt) if tensor.fmt in (F16, BF16) else result
