"""Memory of this process for devices that compute in it: fresh pages, large where those come fast.

The first touch of memory in pages of 4 KiB takes longer than reading a file and writing its tiles:
a third of a second per GB of processor time where many are requested, twice that where a
kernel meets each, against a twentieth in pages of 2 MiB. But the host of a virtual machine may take
large pages back once they are free, and finding them again takes two seconds per GB; and where free
memory lies in small pieces, the system moves pages to join some.
"""

import mmap
import sys
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from time import thread_time_ns

import numpy as np

from engine.device.backend import Bytes
from engine.system import advise, cores, fresh_pages, populate

SMALL, LARGE = 4096, 2 << 20
EVEN, MOST = 500_000, 10_000_000
"""Nanoseconds of a thread that as many small pages take, and by how much large ones may fall behind
or be ahead of that.
"""

AHEAD, STRETCH = 32 << 20, 4 * LARGE
"""Bytes whose pages are taken before they are needed, and those that a thread takes at once."""


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
            populate(memory, start, LARGE)
        except OSError:  # this system has none, or they cannot be requested
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
        self._coming: deque[Future[bool]] = deque()
        self._reached, self._refused = 0, False

    def touch(self, end: int) -> None:
        """Have the pages of all bytes up to `end` before they are written, large ones while those
        are fast. Threads take the pages after them, while the caller goes on.
        """
        last = min(end + AHEAD, self.bytes.size)
        for start in range(self._reached + len(self._coming) * STRETCH, last, STRETCH):
            self._coming.append(_touching().submit(self._take, start))
        while self._coming and self._reached < end:
            self._refused |= not self._coming.popleft().result()
            self._reached += STRETCH

    def touch_all(self) -> None:
        """Have all of it now, as long as nothing but zeros is in it."""
        self.touch(self.bytes.size)
        if self._refused:
            self.bytes[::SMALL] = 0

    def settle(self) -> None:
        """Wait for the pages that are being taken."""
        wait(self._coming)

    def _take(self, first: int) -> bool:
        """Have the pages of the stretch at byte `first`; return False if the system refuses."""
        end = min(first + STRETCH, self.bytes.size)
        try:
            for start in range(first, end, LARGE):
                if start + LARGE <= end and self._large.are_fast:
                    self._large.take(self._map, self._start + start)
                else:
                    populate(self._map, self._start + start, min(LARGE, end - start))
        except OSError:
            return False
        return True


@cache
def _touching() -> ThreadPoolExecutor:
    """Threads that wait for pages: two, as one cannot keep up with kernels on many cores."""
    return ThreadPoolExecutor(min(2, cores()), "pages")


class FilledPages:
    """Memory that somebody else has filled."""

    def __init__(self, data: Bytes) -> None:
        self.bytes = data

    def touch(self, end: int) -> None:
        """Nothing is left to do."""

    def settle(self) -> None:
        """Nothing is under way."""


def has_fresh_pages() -> bool:
    """True if pages are requested of this system: Linux alone has large ones for any program."""
    return sys.platform == "linux" and hasattr(mmap, "MADV_HUGEPAGE")
