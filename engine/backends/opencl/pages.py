"""Memory of this process for devices that compute in it: fresh pages, large where those come fast.

The first touch of memory in pages of 4 KiB takes longer than reading a file and writing its tiles:
a third of a second per GB of processor time, against a twentieth in pages of 2 MiB. But the host of
a virtual machine may take large pages back once they are free, and finding them again takes two
seconds per GB; and where free memory lies in small pieces, the system moves pages to join some.
"""

import mmap
import sys
from time import thread_time_ns

import numpy as np

from engine.device.backend import Bytes
from engine.system import advise, fresh_pages

SMALL, LARGE = 4096, 2 << 20
EVEN, MOST = 500_000, 10_000_000
"""Nanoseconds of a thread that as many small pages take, and by how much large ones may fall behind
or be ahead of that.
"""


class LargePages:
    """Large pages for all memory of a device, as long as that is faster than small ones."""

    def __init__(self) -> None:
        self._ahead = 0

    @property
    def are_fast(self) -> bool:
        return self._ahead > -MOST

    def take(self, memory: mmap.mmap, start: int) -> None:
        """Have one at byte `start` of `memory`, which stays as it is."""
        began = thread_time_ns()
        try:
            advise(memory, "HUGEPAGE", start, LARGE)
            advise(memory, "POPULATE_WRITE", start, LARGE)
        except OSError:  # this system has none, or cannot be asked for them
            self._ahead = -MOST
        else:
            self._ahead = min(MOST, self._ahead + EVEN - (thread_time_ns() - began))


class FreshPages:
    """Zeroed memory that takes none of the machine's before it is touched; `bytes` is all of it."""

    def __init__(self, size: int, large: LargePages) -> None:
        """Raises `OSError` where the system gives no more."""
        self._map, self._large = fresh_pages(size + LARGE), large
        whole = np.frombuffer(self._map, np.uint8)
        self._start = -whole.ctypes.data % LARGE
        self.bytes: Bytes = whole[self._start : self._start + size]
        self._reached = 0

    def touch(self, end: int) -> None:
        """Before bytes up to `end` are written: have them in large pages, while those are fast."""
        while self._reached < end and self._reached + LARGE <= self.bytes.size:
            if not self._large.are_fast:
                return
            self._large.take(self._map, self._start + self._reached)
            self._reached += LARGE

    def touch_all(self) -> None:
        """Have all of it now, as long as nothing but zeros is in it."""
        self.touch(self.bytes.size)
        for start in range(self._reached, self.bytes.size, LARGE):
            self.bytes[start : start + LARGE : SMALL] = 0


class FilledPages:
    """Memory that somebody else has filled."""

    def __init__(self, data: Bytes) -> None:
        self.bytes = data

    def touch(self, end: int) -> None:
        """Nothing is left to do."""


def has_fresh_pages() -> bool:
    """True if this system is asked for pages: Linux alone has large ones for whoever asks."""
    return sys.platform == "linux" and hasattr(mmap, "MADV_HUGEPAGE")
