"""Prefixes that left the context, kept in RAM: of a bounded size, the longest unused go first."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

import psutil

from engine.device.backend import Backend, Buffer, Component, Owner
from engine.errors import NoMem
from engine.gguf.formats import F32
from engine.prefixes import Head, Saved
from engine.settings import AUTOMATIC
from engine.units import MIB

SHARE, MOST = 20, 4096 * MIB
"""By default a twentieth of the RAM, at most so many bytes."""
OWNER = Owner(Component.CACHE, name="kept prefixes")


class _Held(NamedTuple):
    head: Head
    buffer: Buffer
    size: int


class RamPrefixes:
    """Blocks and tails by their names as files have them, in memory of the host's pool."""

    def __init__(self, host: Backend, wanted: int) -> None:
        """`wanted` is in MiB, or AUTOMATIC."""
        self._host = host
        automatic = min(MOST, psutil.virtual_memory().total // SHARE)
        self.most = automatic if wanted == AUTOMATIC else wanted * MIB
        self._held: OrderedDict[str, _Held] = OrderedDict()

    @property
    def size(self) -> int:
        """Bytes that are held."""
        return sum(one.buffer.size for one in self._held.values())

    def has(self, name: str) -> bool:
        """True if it is held; it counts as used now."""
        if name in self._held:
            self._held.move_to_end(name)
        return name in self._held

    def get(self, name: str) -> Saved | None:
        """Return what is held by a name."""
        if not self.has(name):
            return None
        held = self._held[name]
        return Saved(held.head, held.buffer.view(0, held.size).data)

    def tails(self, block: str) -> Iterator[tuple[str, Head]]:
        """Names and headers of the tails that follow a block."""
        for name, held in self._held.items():
            if name.startswith(f"{block}."):
                yield name, held.head

    def put(self, name: str, saved: Saved) -> bool:
        """Hold it, if there is room when what was unused longest is freed."""
        n = max(1, -(-len(saved.body) // 4))
        kind = self._host.buffer_type(F32, (n, 1, 1, 1))
        size = self._host.allocation_size(kind, F32, (n, 1, 1, 1))
        if size > self.most:
            return False
        while self.size + size > self.most:
            self._drop()
        try:
            buffer = self._host.allocate(kind, size, OWNER)
        except NoMem:
            return False
        buffer.view(0, len(saved.body))[:] = saved.body
        self._held[name] = _Held(saved.head, buffer, len(saved.body))
        return True

    def clear(self) -> None:
        """Free all of it."""
        while self._held:
            self._drop()

    def _drop(self) -> None:
        _, held = self._held.popitem(last=False)
        held.buffer.free()
