"""A load that fails in its middle, while threads take pages and kernels pack: the error says what
failed, nothing is held, nothing goes on, and the next load of the file answers the same to the bit.
"""

import gc
import mmap
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import sleep
from types import SimpleNamespace
from typing import Any
from weakref import ref

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.backends.opencl import buffers, packing, pages
from engine.backends.opencl.drivers.loader import cl
from engine.errors import Cancelled, CutawayError, DeviceError, KernelBuildFailed, NoMem
from engine.gguf import GGUFFile
from engine.memory.pools import system_pool
from engine.runner.loading import LoadedModel, load_model
from engine.runner.placing.dry_run import DryRun
from engine.settings import EngineOptions
from tests.engine.runner.failing import fail_opening, n_steps_of_opening
from tests.engine.runner.memory import foreseen, held
from tests.engine.runner.placing.preparing import device, logits, own_files, path, refusal

__all__ = ["device", "own_files", "path"]
pytestmark = [pytest.mark.device, pytest.mark.only_linux("it alone gives pages when asked")]

PIECE, PAGE = 2048, 4096
SLOW = 0.002
"""Seconds that a stretch of pages takes at least, so that threads are behind the kernels."""
DISK, LOST = "Input/output error", -36
TRIALS = 6


class PageThreads(ThreadPoolExecutor):
    """Remembers what they were asked for."""

    def __init__(self) -> None:
        super().__init__(2, "test-pages")
        self.asked: list[Future[Any]] = []
        list(self.map(sleep, [0.01, 0.01]))  # both are there from now on

    def submit(self, work: Callable[..., Any], /, *given: Any, **more: Any) -> Future[Any]:
        def slowly() -> Any:
            sleep(SLOW)
            return work(*given, **more)

        self.asked.append(super().submit(slowly))
        return self.asked[-1]


@dataclass
class Watched:
    """Loads of a file, and what they leave behind."""

    path: Path
    options: EngineOptions
    threads: PageThreads
    maps: list["ref[mmap.mmap]"]
    armed: bool = field(default=False, init=False)
    """Whether memory is there and is being filled."""

    def load(self, cancelled: Callable[[], bool] = lambda: False) -> LoadedModel:
        """Load; before it is filled its records are what was foreseen."""

        def allocated(dry: DryRun) -> None:
            assert held(dry) == foreseen(dry)
            self.armed = True

        try:
            return load_model(self.path, self.options, cancelled=cancelled, allocated=allocated)
        finally:
            self.armed = False
            self.busy = [one for one in self.threads.asked if not one.done()]

    def logits(self) -> NDArray[np.float32]:
        with closing(self.load()) as model:
            return logits(model)

    def check(self, others: set[threading.Thread]) -> None:
        """Nothing is left of a load that has failed."""
        assert not self.busy
        assert not system_pool().taken
        assert set(threading.enumerate()) == others
        gc.collect()
        assert not [one for one in self.maps if one() is not None]
        assert str(self.path) not in Path("/proc/self/maps").read_text("utf-8")


def watching(
    path: Path, options: EngineOptions, patch: pytest.MonkeyPatch, threads: PageThreads
) -> Watched:
    maps: list[ref[mmap.mmap]] = []
    fresh = pages.fresh_pages

    def noted(size: int) -> mmap.mmap:
        made = fresh(size)
        maps.append(ref(made))
        return made

    patch.setattr(pages, "fresh_pages", noted)
    patch.setattr(pages, "_touching", lambda: threads)
    return Watched(path, options, threads, maps)


@pytest.fixture
def threads() -> Iterator[PageThreads]:
    with PageThreads() as made:
        yield made


@pytest.fixture
def watched(
    path: Path, device: str, threads: PageThreads, monkeypatch: pytest.MonkeyPatch
) -> Watched:
    """A small file, whose pieces, pages and stretches are as small in proportion."""
    for module, name, size in (
        (packing.InPlace, "piece", PIECE),
        (packing, "PIECE", PIECE),
        (pages, "LARGE", PAGE),
        (pages, "STRETCH", PAGE),
        (pages, "AHEAD", 8 * PAGE),
    ):
        monkeypatch.setattr(module, name, size)
    return watching(path, EngineOptions(device=device, ctx=64, prepared=0), monkeypatch, threads)


@dataclass
class Nth:
    """Counts what is done while a load is filled or, if `late`, computes its first token, and does
    something else at the n-th; 0 never.
    """

    watched: Watched
    n: int
    instead: Callable[..., Any]
    count: int = 0

    def wrap(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **more: Any) -> Any:
            self.count += self.watched.armed
            if self.watched.armed and self.count == self.n:
                return self.instead(*given, **more)
            return real(*given, **more)

        return called


def driver(code: int) -> Callable[..., Any]:
    """A call of OpenCL that returns an error."""

    def refuse(*_: object, **__: object) -> None:
        raise refusal(code, "clEnqueue")

    return refuse


NO_MEMORY = cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE


def of_driver(call: str, code: int) -> Callable[[Watched, int, pytest.MonkeyPatch], Nth]:
    """The driver's n-th such call fails."""

    def inject(watched: Watched, n: int, patch: pytest.MonkeyPatch) -> Nth:
        nth = Nth(watched, n, driver(code))
        names = {name: getattr(cl, name) for name in dir(cl) if not name.startswith("__")}
        fake = SimpleNamespace(**{**names, call: nth.wrap(getattr(cl, call))})
        patch.setattr(buffers, "cl", fake)
        return nth

    return inject


def of_disk(watched: Watched, n: int, patch: pytest.MonkeyPatch) -> Nth:
    """The n-th tensor cannot be read."""

    def unreadable(file: GGUFFile, name: str) -> None:
        raise OSError(5, DISK, name)

    nth = Nth(watched, n, unreadable)
    patch.setattr(GGUFFile, "data", nth.wrap(GGUFFile.data))
    return nth


def of_compiler(watched: Watched, n: int, patch: pytest.MonkeyPatch) -> Nth:
    """The n-th packing kernel does not build."""
    real = packing.pack

    def wrong(*given: Any) -> Any:
        launch = real(*given)
        return replace(launch, defines={**launch.defines, "LOCAL": "no_such_size"})

    nth = Nth(watched, n, wrong)
    patch.setattr(packing, "pack", nth.wrap(real))
    return nth


Inject = Callable[[Watched, int, pytest.MonkeyPatch], Nth]
FAULTS: dict[str, tuple[Inject, type[BaseException], str]] = {
    "memory": (of_driver("enqueue_marker", NO_MEMORY), NoMem, "weights"),
    "lost": (of_driver("wait_for_events", LOST), DeviceError, "weights"),
    "write": (of_driver("enqueue_copy", NO_MEMORY), NoMem, "weights|graph"),
    "disk": (of_disk, OSError, rf"{DISK}: '(blk|output|token)"),
    "compiler": (of_compiler, KernelBuildFailed, "kernel family pack .*no_such_size"),
}


def check_fault(watched: Watched, fault: str, where: float) -> None:
    """At this part of the way through the load."""
    inject, kind, words = FAULTS[fault]
    shown, others = watched.logits(), set(threading.enumerate())
    with pytest.MonkeyPatch.context() as patch:
        every = inject(watched, 0, patch)
        watched.logits()
    assert every.count > 1
    with pytest.MonkeyPatch.context() as patch:
        nth = inject(watched, max(1, round(where * every.count)), patch)
        with pytest.raises(kind, match=words) as caught:
            watched.load().close()
        assert nth.count >= nth.n
    if isinstance(caught.value, CutawayError) and kind is not OSError:
        assert watched.options.device in str(caught.value)
    del caught
    watched.check(others)
    np.testing.assert_array_equal(watched.logits(), shown)


@pytest.mark.each_value
@pytest.mark.parametrize("where", [0.0, 0.5, 1.0], ids=["first", "middle", "last"])
@pytest.mark.parametrize("fault", FAULTS)
def test_what_fails_in_the_middle_leaves_nothing(
    watched: Watched, fault: str, where: float
) -> None:
    check_fault(watched, fault, where)


@pytest.mark.parametrize("piece", [1, 2, 20])
def test_a_cancel_leaves_nothing(watched: Watched, piece: int) -> None:
    shown, others = watched.logits(), set(threading.enumerate())
    asked = iter([False] * (piece - 1))
    with pytest.raises(Cancelled, match="loading"):
        watched.load(lambda: next(asked, True))
    assert len(watched.threads.asked) > 1
    watched.check(others)
    np.testing.assert_array_equal(watched.logits(), shown)


@pytest.mark.parametrize("trials", [TRIALS, pytest.param(300, marks=pytest.mark.full)])
def test_whatever_fails_on_the_way_nothing_is_left(watched: Watched, trials: int) -> None:
    shown, others = watched.logits(), set(threading.enumerate())
    steps = n_steps_of_opening(watched.load)
    for trial in range(trials):
        error: BaseException = (DeviceError("x", "x"), MemoryError())[trial % 2]
        fail_opening(watched.load, 1 + steps * trial // trials, error)
        del error
        watched.check(others)
    np.testing.assert_array_equal(watched.logits(), shown)


@pytest.mark.model_file
@pytest.mark.parametrize("fault", ["memory", "compiler"])
def test_the_same_of_a_real_file(
    smollm2_path: Path,
    device: str,
    threads: PageThreads,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
) -> None:
    monkeypatch.setattr(packing.InPlace, "piece", 1 << 20)
    options = EngineOptions(device=device, ctx=64, prepared=0)
    check_fault(watching(smollm2_path, options, monkeypatch, threads), fault, 0.5)
