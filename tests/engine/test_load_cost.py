"""What a load says that it took, beside what the system says of this process."""

import mmap
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from threading import Thread
from time import perf_counter, thread_time
from typing import Any

import pytest

from engine import progress
from engine.backends.opencl import buffers
from engine.backends.opencl.drivers.device import list_devices
from engine.backends.opencl.pages import has_fresh_pages
from engine.progress import Clock, part
from engine.protocol import Load
from engine.runner.loading import LoadedModel, load_model
from engine.settings import EngineOptions
from engine.worker import handlers
from engine.worker.handlers import HANDLERS
from engine.worker.service import Service

SMALL, MANY = 4096, 3000
WORK = 0.2
"""Seconds of processor time."""


def test_parts_within_parts_count_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """And neither what another thread does nor what nobody named."""
    now = 0.0
    monkeypatch.setattr(progress, "perf_counter", lambda: now)
    clock, other = Clock(), Clock()

    def work(seconds: float) -> None:
        nonlocal now
        now += seconds

    def beside() -> None:
        with part("a"):
            work(100)

    with part("a"):
        work(1000)  # no clock runs
    with clock.running():
        work(1)
        with suppress(ValueError), part("a"):
            work(2)
            with part("b"):
                work(4)
                with part("a"):
                    work(8)
            work(16)
            raise ValueError
        work(32)
        thread = Thread(target=beside)
        thread.start()
        thread.join()
        with other.running(), part("b"):
            work(64)
    assert (clock.seconds, other.seconds) == ({"a": 26.0, "b": 4.0}, {"b": 64.0})


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service(lambda reply: None, set())
    yield made
    made.close_model()


def spend(seconds: float) -> None:
    began = thread_time()
    while thread_time() - began < seconds:
        pass


@pytest.mark.only_linux("it alone counts faults and takes small pages as asked")
def test_processor_time_and_faults_are_those_of_the_process(
    tiny_path: Path, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load with work of known size in it, between two looks at the system's own numbers."""
    import resource

    def loading(*given: Any, **more: Any) -> LoadedModel:
        spend(WORK)
        with closing(mmap.mmap(-1, MANY * SMALL, flags=mmap.MAP_PRIVATE)) as memory:
            memory.madvise(mmap.MADV_NOHUGEPAGE)
            for at in range(0, MANY * SMALL, SMALL):
                memory[at] = 1
        return load_model(*given, **more)

    monkeypatch.setattr(handlers, "load_model", loading)
    options = EngineOptions(device="host", ctx=64, prepared=0)
    before, began = resource.getrusage(resource.RUSAGE_SELF), perf_counter()
    loaded: Any = HANDLERS[Load](service, Load(1, str(tiny_path), options))
    after, took = resource.getrusage(resource.RUSAGE_SELF), perf_counter() - began
    used = loaded.cost.used
    assert used.user_s + used.system_s > WORK * 0.9
    assert MANY <= used.minor_faults <= after.ru_minflt - before.ru_minflt
    assert used.major_faults <= after.ru_majflt - before.ru_majflt
    assert used.user_s <= after.ru_utime - before.ru_utime
    assert used.system_s <= after.ru_stime - before.ru_stime
    assert sum(loaded.cost.seconds.values()) <= took - WORK


def test_what_a_system_does_not_count_is_left_out(
    tiny_path: Path, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "usage", lambda: None)
    options = EngineOptions(device="host", ctx=64, prepared=0)
    loaded: Any = HANDLERS[Load](service, Load(1, str(tiny_path), options))
    assert loaded.cost.used is None


@pytest.mark.device
def test_each_part_of_a_real_load_has_its_time(
    smollm2_path: Path, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each buffer's pages are taken by us, so that they are waited for."""
    names = [d.name for d in list_devices() if d.default and d.traits.is_cpu]
    if not names:
        pytest.skip("needs an OpenCL driver")
    monkeypatch.setattr(buffers, "LARGE", 1)
    options, began = EngineOptions(device=names[0], ctx=64, prepared=0), perf_counter()
    loaded: Any = HANDLERS[Load](service, Load(1, str(smollm2_path), options))
    took, seconds = perf_counter() - began, loaded.cost.seconds
    expected = {"opening", "planning", "reading", "packing", "waiting", "first token"}
    assert seconds.keys() == expected | ({"touching"} if has_fresh_pages() else set())
    assert min(seconds.values()) > 0
    assert sum(seconds.values()) <= took
