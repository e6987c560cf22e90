"""Weights of a model that was closed, kept where they lie for the next one to take over."""

from collections.abc import Callable, Collection, Hashable, Mapping
from types import MappingProxyType

from engine.device.backend import Buffer, Location
from engine.graph.tensor import Tensor
from engine.weights.load import Allocation, InFile


class WeightShelf:
    """Buffers by what is in them. What nobody takes is freed by `close`."""

    def __init__(self, buffers: Mapping[Hashable, Buffer] = MappingProxyType({})) -> None:
        self._buffers = dict(buffers)

    @property
    def size(self) -> int:
        """Bytes of what is left."""
        return sum(buffer.size for buffer in self._buffers.values())

    def keep(self, wanted: Collection[Hashable]) -> None:
        """Free everything else."""
        for key in [key for key in self._buffers if key not in wanted]:
            self._buffers[key].free()
            del self._buffers[key]

    def give(
        self, key: Hashable, wanted: Allocation, placed: dict[Tensor, Location]
    ) -> Collection[Tensor]:
        """Put a buffer into `placed` if it is here and its device still knows it; the tensors that
        lie in it and need not be filled.
        """
        buffer = self._buffers.get(key)
        if buffer is None or not wanted.backend.adopt(buffer):
            return ()
        placed.update(wanted.locations(buffer))
        del self._buffers[key]  # From here on `placed` alone frees it.
        return [tensor for tensor, _ in wanted.tensors]

    def close(self) -> None:
        """Free what is left."""
        self.keep(())


def contents(wanted: Allocation, stored: Callable[[Tensor], InFile]) -> Hashable:
    """Return a key for the contents of a weight buffer that stays valid when the file is reopened:
    the same numbers of the same files in the same state, in the layout of the same device.
    """
    tensors = tuple(
        (*_source(stored(tensor)), tensor.fmt, tensor.shape, size)
        for tensor, size in wanted.tensors
    )
    return wanted.backend.name, wanted.type, wanted.owner, tensors


def _source(weight: InFile) -> tuple[Hashable, str]:
    return weight.file.identity, weight.name
