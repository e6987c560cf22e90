"""The worker moves its open model: what it tells on the way, and what the chat keeps."""

from dataclasses import replace
from pathlib import Path

import pytest

from engine.protocol import (
    Generate,
    HeldMemory,
    Load,
    MemoryEvents,
    Move,
    Moved,
    PlannedMemory,
    Progress,
    Reply,
    Reprice,
    Sampling,
)
from engine.settings import EngineOptions
from engine.worker import RemoteError, Worker
from tests.engine.runner.memory import two_devices
from tests.program import REPEATS

pytestmark = pytest.mark.device
GREEDY = Sampling(temperature=0)


def sizes(memory: HeldMemory | PlannedMemory) -> dict[tuple[str, str, int | None], int]:
    return {(r.device, r.component, r.layer): r.size for r in memory.rows}


def hear(worker: Worker, request: Move) -> list[Reply]:
    """All that is said until it ends."""
    worker.send(request)
    heard: list[Reply] = []
    while not (heard and isinstance(heard[-1], Moved)):
        reply = worker.receive(60)
        assert reply is not None
        heard.append(reply)
    return heard


def test_a_chat_goes_on_where_its_model_was_moved(worker: Worker, tiny_path: Path) -> None:
    one, two = two_devices()
    options = EngineOptions(device=f"{one},{two}", ctx=256, place=f"0-2={one},out={one}")
    worker.get(Load(worker.new_id(), str(tiny_path), options))
    first = worker.get(Generate(worker.new_id(), prompt=REPEATS, sampling=GREEDY, max_tokens=8))
    elsewhere = replace(options, place=f"0={one},1-2={two},out={one}")
    priced = worker.get(Reprice(worker.new_id(), str(tiny_path), elsewhere))

    heard = hear(worker, Move(worker.new_id(), elsewhere))
    moved = heard[-1]
    assert isinstance(moved, Moved)
    assert moved.loaded.path == str(tiny_path)
    assert moved.n_kept == first.stats.n_context
    planned = next(r for r in heard if isinstance(r, PlannedMemory))
    held = next(r for r in heard if isinstance(r, HeldMemory))
    assert sizes(planned) == sizes(held) == sizes(priced.memory)
    events = [e for r in heard if isinstance(r, MemoryEvents) for e in r.events]
    assert {e.layer for e in events if e.component == "weights"} == {1, 2}
    told = [r for r in heard if isinstance(r, Progress) and r.stage == "load"]
    assert [r.done for r in told] == sorted(r.done for r in told)
    assert (told[0].done, told[-1].done) == (0, told[-1].total)

    again = worker.get(Generate(worker.new_id(), prompt=REPEATS, sampling=GREEDY, max_tokens=8))
    assert again.stats.n_cached == again.stats.n_prompt - 1
    assert again.stats.n_generated == 8
    lies = worker.get(Reprice(worker.new_id(), str(tiny_path), elsewhere))
    assert lies.layers == [one, two, two, one]
    assert sizes(lies.memory) == sizes(held)


def test_what_fails_is_told_and_the_model_stays(worker: Worker, tiny_path: Path) -> None:
    one, two = two_devices()
    options = EngineOptions(device=f"{one},{two}", ctx=256, place=f"0-2={one},out={one}")
    with pytest.raises(RemoteError, match="open one first"):
        worker.get(Move(worker.new_id(), options))
    worker.get(Load(worker.new_id(), str(tiny_path), options))
    for other, kind in (
        (replace(options, ctx=128), "NeedsReload"),
        (replace(options, place="9=host"), "BadSetting"),
    ):
        with pytest.raises(RemoteError) as error:
            worker.get(Move(worker.new_id(), other))
        assert error.value.kind == kind
        assert "\n" not in str(error.value)
    done = worker.get(Generate(worker.new_id(), prompt=REPEATS, sampling=GREEDY, max_tokens=3))
    assert done.stats.n_generated == 3
