"""A step computed once more on the host, operation by operation, over what a device computed."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from engine.backends.host.backend import HostBackend
from engine.device.backend import Bytes, Location
from engine.graph.arrays import decode, encode, raw_array
from engine.graph.tensor import Role, Tensor
from engine.scheduler.record import Values

Numbers = NDArray[np.generic]


class HostStep:
    """Values of one graph on the host: `weight` gives a leaf's blocks, `caches` are bytes that live
    from step to step. Every result has memory of its own, so that each can be looked at.
    """

    def __init__(
        self, weight: Callable[[Tensor], Bytes], inputs: Values, caches: dict[Tensor, Bytes]
    ) -> None:
        self._host = HostBackend()
        self._weight, self._inputs, self._caches = weight, inputs, caches
        self._places: dict[Tensor, Location] = {}

    def run(self, node: Tensor) -> None:
        """Compute one node from the values as they are."""
        self._host.compile([node], self._where).run()

    def values(self, tensor: Tensor) -> Numbers:
        """Values as float32 or integers, in the reversed shape."""
        return decode(self._raw(tensor), tensor.fmt)

    def put(self, tensor: Tensor, values: Numbers) -> None:
        """Other values from now on, in the reversed shape."""
        self._raw(tensor)[...] = encode(values, tensor.fmt)

    def _raw(self, tensor: Tensor) -> Numbers:
        at = self._where(tensor.storage)
        return raw_array(at.buffer.view(tensor.offset, tensor.nbytes), tensor)

    def _where(self, storage: Tensor) -> Location:
        if storage not in self._places:
            self._places[storage] = self._host.map(self._bytes(storage))
        return self._places[storage]

    def _bytes(self, storage: Tensor) -> Bytes:
        if storage.role is Role.WEIGHT:
            return self._weight(storage)
        if storage.role is Role.INPUT:
            values = np.ascontiguousarray(self._inputs[storage])
            return values.reshape(-1).view(np.uint8).copy()
        if storage.role is Role.CACHE:
            return self._caches.setdefault(storage, np.zeros(storage.nbytes, np.uint8))
        return np.zeros(storage.nbytes, np.uint8)
