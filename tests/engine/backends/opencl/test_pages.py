"""Memory of this process: what is touched stays as it is, and slow large pages are soon left."""

import mmap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread

import numpy as np
import psutil
import pytest

from engine.backends.opencl import pages
from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.drivers.loader import cl
from engine.backends.opencl.pages import (
    AHEAD,
    EVEN,
    LARGE,
    MOST,
    STRETCH,
    FreshPages,
    LargePages,
)
from engine.device.backend import Component, Owner
from engine.errors import NoMem
from engine.gguf.formats import F32

pytestmark = pytest.mark.only_linux("it alone gives large pages")


@pytest.fixture
def in_turn(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadPoolExecutor]:
    """One thread takes all pages."""
    with ThreadPoolExecutor(1) as one:
        monkeypatch.setattr(pages, "_touching", lambda: one)
        yield one


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


@pytest.mark.usefixtures("in_turn")
def test_each_large_page_is_asked_for_once_and_none_behind_the_end() -> None:
    large = SlowPages()
    memory = FreshPages(7 * LARGE + 5, large)
    for end in (1, LARGE, LARGE + 1, 7, memory.bytes.size, memory.bytes.size):
        memory.touch(end)
    assert np.diff(large.taken).tolist() == [LARGE] * 6


def resident(memory: FreshPages) -> int:
    """Bytes from the first one on that take memory of the machine."""
    start = memory.bytes.ctypes.data // mmap.PAGESIZE
    with open("/proc/self/pagemap", "rb") as table:
        table.seek(start * 8)
        entries = np.frombuffer(table.read(memory.bytes.size // mmap.PAGESIZE * 8), "<u8")
    there = entries >> 63
    assert (np.diff(there.astype(int)) <= 0).all()  # none after one that is missing
    return int(there.sum()) * mmap.PAGESIZE


@pytest.mark.parametrize("large", [LargePages(), SlowPages(2 * MOST)], ids=["large", "small"])
def test_pages_come_before_they_are_needed_and_not_all(
    in_turn: ThreadPoolExecutor, large: LargePages
) -> None:
    """What is touched is there, so much ahead of it too, and no more."""
    memory = FreshPages(AHEAD + 4 * STRETCH, large)
    memory.touch(STRETCH + 1)
    assert resident(memory) >= 2 * STRETCH
    memory.settle()
    assert resident(memory) == AHEAD + 2 * STRETCH
    memory.touch(memory.bytes.size)
    assert resident(memory) == memory.bytes.size


def test_memory_is_freed_when_no_thread_takes_its_pages(
    backend: OpenCLBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller goes on as soon as what it needs is there; freeing waits for the rest."""
    gate, taken = Event(), []

    def take(memory: FreshPages, first: int) -> bool:
        if first:
            gate.wait()
        taken.append(first)
        return True

    monkeypatch.setattr(FreshPages, "_take", take)
    kind = backend.buffer_type(F32, (1, 1, 1, 1))
    buffer = backend.allocate(kind, 3 * STRETCH, Owner(Component.WEIGHTS), zeros=False)
    buffer.touch(1)
    assert taken == [0]
    freeing = Thread(target=buffer.free)
    freeing.start()
    freeing.join(0.1)
    waited = freeing.is_alive()
    gate.set()
    freeing.join()
    assert waited
    assert sorted(taken) == [0, STRETCH, 2 * STRETCH]


@pytest.mark.usefixtures("in_turn")
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


@pytest.mark.usefixtures("in_turn")
@pytest.mark.parametrize("refused", [False, True], ids=["asked", "refused"])
def test_all_is_there_in_small_pages_too(monkeypatch: pytest.MonkeyPatch, refused: bool) -> None:
    """Also by a system that takes no such request: then each is touched."""

    def refuse(*_: object) -> None:
        raise OSError(22, "Invalid argument")

    large, size = SlowPages(2 * MOST + EVEN), 16 * LARGE
    if refused:
        monkeypatch.setattr(pages, "populate", refuse)
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
