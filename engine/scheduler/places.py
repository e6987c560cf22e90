"""Where leaves lie, seen from each backend: read in place, or brought there by a copy."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from engine.device.backend import PLAIN, Backend, BufferType, TypeOf
from engine.graph.tensor import Role, Tensor


class Places:
    """`types` shows where each weight and cache lies. `mapped` weights are also in the mapped file.

    `backends` come by priority, the host last.
    """

    def __init__(
        self,
        backends: Sequence[Backend],
        types: Mapping[Tensor, BufferType],
        mapped: Collection[Tensor] = (),
    ) -> None:
        self.backends = tuple(backends)
        self._types = types
        self._mapped = frozenset(mapped)
        self._by_name = {backend.name: backend for backend in backends}

    @property
    def host(self) -> Backend:
        """The last backend."""
        return self.backends[-1]

    def home(self, leaf: Tensor) -> Backend | None:
        """The backend a weight or cache lies on; None for all else."""
        kind = self._types.get(leaf)
        return None if kind is None else self._by_name[kind.device]

    def readable(self, leaf: Tensor, backend: Backend) -> BufferType | None:
        """How a backend finds a leaf where it lies, the mapped file included; None where it cannot
        read it without a copy. Another's cache it never does: that is written while it would read.
        """
        kind = self._types.get(leaf)
        if kind is None or kind.device == backend.name:
            return kind
        if leaf.role is Role.WEIGHT and backend.reads(kind, leaf.nbytes):
            return kind
        if leaf in self._mapped:
            in_file = self.host.buffer_type(leaf.fmt, leaf.shape)
            if backend is self.host or backend.reads(in_file, leaf.nbytes):
                return in_file
        return None

    def types_on(self, backend: Backend) -> TypeOf:
        """The buffer types that nodes on this backend read; None for computed values, copies and
        inputs.
        """
        return lambda leaf: self.readable(leaf, backend)

    def origin(self, leaf: Tensor) -> Backend | None:
        """The backend that can give a weight's or cache's plain bytes; None if none can."""
        if leaf in self._mapped:
            return self.host
        kind = self._types.get(leaf)
        return None if kind is None or kind.layout != PLAIN else self._by_name[kind.device]

    def reachable(self, storage: Tensor, backend: Backend) -> bool:
        """True if a backend can have these bytes at all, in place or by a copy."""
        if storage not in self._types:
            return True
        return self.readable(storage, backend) is not None or self.origin(storage) is not None


def sources(node: Tensor) -> Iterator[tuple[int, Tensor]]:
    """The sources a node has, with their positions; there may be gaps between them."""
    return ((i, source) for i, source in enumerate(node.src) if source is not None)


def is_placed(leaf: Tensor) -> bool:
    """True if a storage is a weight or a cache."""
    return leaf.role in (Role.WEIGHT, Role.CACHE)
