"""Memory of this process: what is touched stays as it is, and slow large pages are soon left."""

import mmap
from threading import Thread

import numpy as np
import psutil
import pytest

from engine.backends.opencl import pages
from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.drivers.loader import cl
from engine.backends.opencl.pages import EVEN, LARGE, MOST, FreshPages, LargePages
from engine.device.backend import Component, Owner
from engine.errors import NoMem
from engine.gguf.formats import F32

pytestmark = pytest.mark.only_linux("it alone gives large pages")


class SlowPages(LargePages):
    """Each takes as long as is said; after that they are told to be fast."""

    def __init__(self, *times: int) -> None:
        super().__init__()
        self.times, self.taken = list(times), []

    def take(self, memory: mmap.mmap, start: int) -> None:
        now = self.times.pop(0) if self.times else 0
        with pytest.MonkeyPatch.context() as patch:
            clock = iter((0, now))
            patch.setattr(pages, "thread_time_ns", lambda: next(clock))
            super().take(memory, start)
        self.taken.append(start)


def test_each_large_page_is_asked_for_once_and_none_behind_the_end() -> None:
    large = SlowPages()
    memory = FreshPages(3 * LARGE + 5, large)
    for end in (1, LARGE, LARGE + 1, 7, memory.bytes.size, memory.bytes.size):
        memory.touch(end)
    assert np.diff(large.taken).tolist() == [LARGE, LARGE]


def test_what_lies_there_stays() -> None:
    memory = FreshPages(2 * LARGE, LargePages())
    memory.bytes[:] = 7
    memory.touch(2 * LARGE)
    assert (memory.bytes == 7).all()


def test_slow_ones_are_left_and_a_few_among_fast_ones_are_not() -> None:
    slow = MOST // 4 + EVEN
    some = SlowPages(*[slow, *[0] * 20] * 4)
    FreshPages(84 * LARGE, some).touch(84 * LARGE)
    assert len(some.taken) == 84
    many = SlowPages(*[0] * 40, *[slow] * 40)
    memory = FreshPages(84 * LARGE, many)
    memory.touch(84 * LARGE)
    assert len(many.taken) == 40 + 2 * 4  # however many were fast before
    FreshPages(LARGE, many).touch(LARGE)
    assert len(many.taken) == 48


def test_all_is_there_in_small_pages_too() -> None:
    large, size = SlowPages(2 * MOST + EVEN), 16 * LARGE
    memory = FreshPages(size, large)
    before = psutil.Process().memory_info().rss
    memory.touch_all()
    assert len(large.taken) == 1
    assert psutil.Process().memory_info().rss - before > size * 0.9
    assert not memory.bytes.any()


def test_a_system_without_them_is_asked_once() -> None:
    class Refusing:
        asked = 0

        def madvise(self, *_: int) -> None:
            self.asked += 1
            raise OSError(22, "Invalid argument")

    memory, large = Refusing(), LargePages()
    large.take(memory, 0)  # type: ignore[arg-type]
    assert (memory.asked, large.are_fast) == (1, False)


def test_no_room_is_told_and_the_claim_given_back(
    backend: OpenCLBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> mmap.mmap:
        raise OSError(12, "Cannot allocate memory")

    kind, used = backend.buffer_type(F32, (1, 1, 1, 1)), backend.used
    monkeypatch.setattr(pages.mmap, "mmap", refuse)
    with pytest.raises(NoMem, match="Cannot allocate memory"):
        backend.allocate(kind, LARGE, Owner(Component.WEIGHTS), zeros=False)
    assert backend.used == used


def test_memory_that_a_kernel_may_still_write_is_waited_for(backend: OpenCLBackend) -> None:
    kind = backend.buffer_type(F32, (1, 1, 1, 1))
    buffer = backend.allocate(kind, LARGE, Owner(Component.WEIGHTS))
    assert not buffer.read(0, LARGE).any()
    gate = cl.UserEvent(backend.queue.context)
    cl.enqueue_barrier(backend.queue.now, wait_for=[gate])
    backend.queue.now.flush()
    freeing = Thread(target=buffer.free)
    freeing.start()
    freeing.join(0.1)
    waited = freeing.is_alive()
    gate.set_status(cl.command_execution_status.COMPLETE)
    freeing.join()
    assert waited
