"""What the worker tells of its memory, and that it gives back what it took."""

import time
from pathlib import Path

import psutil
import pytest

from engine.errors import NoMem
from engine.protocol import (
    Failed,
    Finished,
    Generate,
    HeldMemory,
    Load,
    Loaded,
    Memory,
    MemoryEvent,
    MemoryEvents,
    PlannedMemory,
    Reply,
    Sampling,
    Unload,
    Unloaded,
    WireMessage,
)
from engine.settings import EngineOptions
from engine.worker import Worker
from tests.engine.runner.memory import drivers
from tests.gguf_files import in_memory

pytestmark = pytest.mark.device
MIB = 1 << 20
ENDS = (Loaded, Finished, Unloaded, Failed)


def told(worker: Worker, request: WireMessage) -> list[Reply]:
    """Everything up to the end of a request."""
    worker.send(request)  # type: ignore[arg-type]
    replies: list[Reply] = []
    while not (replies and isinstance(replies[-1], ENDS)):
        reply = worker.receive(120)
        assert reply is not None
        replies.append(reply)
    return replies


def events(replies: list[Reply]) -> list[MemoryEvent]:
    return [e for r in replies if isinstance(r, MemoryEvents) for e in r.events]


def held(found: list[MemoryEvent]) -> dict[tuple[str, str, int | None], int]:
    """What is held after these events, by their own sizes."""
    sums: dict[tuple[str, str, int | None], int] = {}
    for e in found:
        key = (e.device, e.component, e.layer)
        sign = {"allocate": 1, "free": -1, "refuse": 0}[e.kind]
        sums[key] = sums.get(key, 0) + sign * e.size
    return {key: size for key, size in sums.items() if size}


def test_events_add_up_to_the_records(worker: Worker, tiny_path: Path) -> None:
    loading = told(
        worker, Load(worker.new_id(), str(tiny_path), EngineOptions(device=drivers()[0], ctx=64))
    )
    memories = [r for r in loading if isinstance(r, Memory)]
    assert [type(m) for m in memories[:1] + memories[-1:]] == [PlannedMemory, HeldMemory]
    assert {r.status for r in memories[0].rows} == {"planned", "mapped"}
    assert {r.status for r in memories[-1].rows} == {"allocated", "mapped"}
    rows = [r for r in memories[-1].rows if r.status == "allocated"]
    assert held(events(loading)) == {(r.device, r.component, r.layer): r.size for r in rows}
    (pool,) = memories[-1].pools
    assert pool.used == sum(r.size for r in rows) == events(loading)[-1].used
    leaving = told(worker, Unload(worker.new_id()))
    assert held(events(loading) + events(leaving)) == {}
    assert events(leaving)[-1].used == 0


def test_what_was_refused_is_told_before_the_failure(worker: Worker, tiny_path: Path) -> None:
    device = drivers()[0]
    options = EngineOptions(device=device, ctx=64, budget={device: 100_000})
    replies = told(worker, Load(worker.new_id(), str(tiny_path), options))
    failed = replies[-1]
    assert isinstance(failed, Failed)
    assert failed.kind == NoMem.__name__
    assert f"{device}: no room for " in failed.message
    planned, now = [r for r in replies if isinstance(r, Memory)][-2:]
    assert isinstance(planned, PlannedMemory)
    assert isinstance(now, HeldMemory)
    assert not planned.fits
    assert planned.shortfall == sum(r.size for r in planned.rows if r.device == device) - 100_000
    (refused,) = [r for r in now.rows if r.status == "failed"]
    where = "" if refused.layer is None else f" of layer {refused.layer}"
    assert f"no room for {refused.component}{where}" in failed.message
    assert held(events(replies)) == {}
    again = told(
        worker, Load(worker.new_id(), str(tiny_path), EngineOptions(device=device, ctx=64))
    )
    assert isinstance(again[-1], Loaded)
    assert any("total memory" in line for line in again[-1].details)
    assert any(line.startswith(f"{device} takes layers 0-2") for line in again[-1].details)


@pytest.mark.full
@pytest.mark.model_file
@pytest.mark.parametrize("name", ["smollm2_path", "gemma3_path"])
def test_loads_and_unloads_leave_nothing(
    worker: Worker, name: str, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(name)
    process = psutil.Process(worker.pid)
    everything: list[MemoryEvent] = []
    sizes = []
    for i in range(20):
        for message in (Load(2 * i, str(path), EngineOptions(ctx=2048)), Unload(2 * i + 1)):
            replies = told(worker, message)
            assert not isinstance(replies[-1], Failed)
            everything += events(replies)
        assert held(everything) == {}
        assert everything[-1].used == 0
        time.sleep(0.2)
        sizes.append(process.memory_info().rss)
    print([round(size / MIB, 1) for size in sizes])
    assert abs(sizes[-1] - sizes[4]) < 10 * MIB


@pytest.mark.only_linux("it takes advice on pages")
@pytest.mark.model_file
def test_rows_that_were_looked_up_do_not_stay(worker: Worker, smollm2_path: Path) -> None:
    options = EngineOptions(device=drivers()[0], ctx=256)
    told(worker, Load(worker.new_id(), str(smollm2_path), options))
    hot = Sampling(temperature=100.0, top_k=0, top_p=1.0, seed=1)  # another row with every token
    request = Generate(worker.new_id(), prompt="The", sampling=hot, max_tokens=200)
    assert isinstance(told(worker, request)[-1], Finished)
    assert worker.pid is not None
    deadline = time.monotonic() + 60
    while in_memory(smollm2_path, worker.pid) >= 2 * MIB:  # they go after the last word
        assert time.monotonic() < deadline
        time.sleep(0.05)
