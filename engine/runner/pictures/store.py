"""Rows that the tower has made, kept in host memory: the same picture is encoded once."""

from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from engine.device.backend import Backend, Buffer, Component, Owner
from engine.errors import NoMem
from engine.gguf.formats import F32
from engine.runner.pictures.items import Shown

Floats = NDArray[np.float32]
ROWS = Owner(Component.VISION, name="rows of pictures")


class Kept:
    """The rows of all views of one picture f32 [n, width], and which views are there by now."""

    def __init__(self, buffer: Buffer, n: int, width: int) -> None:
        self.buffer = buffer
        self.rows: Floats = buffer.view(0, n * width * 4).view(np.float32).reshape(n, width)
        self.done: set[int] = set()


class RowStore:
    """Rows by picture and plan, at most `most_bytes` of them: the longest unused go first.

    One picture is always kept, however large. `width` is E * (1 + deepstack).
    """

    def __init__(self, host: Backend, width: int, most_bytes: int) -> None:
        self.width = width
        self._host, self._most = host, most_bytes
        self._kept: OrderedDict[Shown, Kept] = OrderedDict()

    def take(self, picture: Shown) -> Kept:
        """Return the stored rows of a picture, or allocate room for them. Room for it, if nothing
        is. Raises `NoMem`.
        """
        kept = self._kept.get(picture)
        if kept is None:
            kept = self._kept[picture] = self._allocate(picture.starts[-1])
            self._trim()
        self._kept.move_to_end(picture)
        return kept

    def has(self, picture: Shown) -> bool:
        """True if all of its rows are there."""
        kept = self._kept.get(picture)
        return kept is not None and len(kept.done) == len(picture.plan.views)

    @property
    def size(self) -> int:
        """Bytes that are held."""
        return sum(kept.buffer.size for kept in self._kept.values())

    def clear(self) -> None:
        """Free all rows."""
        while self._kept:
            self._drop()

    def _allocate(self, n: int) -> Kept:
        """Room for `n` rows; where there is none, older pictures make it."""
        kind = self._host.buffer_type(F32, (self.width, n, 1, 1))
        size = self._host.allocation_size(kind, F32, (self.width, n, 1, 1))
        while True:
            try:
                return Kept(self._host.allocate(kind, size, ROWS), n, self.width)
            except NoMem:
                if not self._kept:
                    raise
                self._drop()

    def _trim(self) -> None:
        while len(self._kept) > 1 and self.size > self._most:
            self._drop()

    def _drop(self) -> None:
        _, kept = self._kept.popitem(last=False)
        kept.rows = np.empty((0, self.width), np.float32)
        kept.buffer.free()
