"""Sums of the engine's records against the records themselves."""

import random

import pytest

from app.state.memory_sums import layers, pools
from engine.protocol import Memory, MemoryRow, PoolRow

MIB = 1 << 20


def memory(status: str, *, mapped: bool = True) -> Memory:
    draw = random.Random(3)
    rows = [
        MemoryRow("intel:0", component, layer, draw.randrange(1, 9) * MIB, status)
        for layer in range(4)
        for component in ("weights", "cache")
    ]
    rows.append(MemoryRow("intel:0", "weights", 4, 28 * MIB, status))
    rows.append(MemoryRow("intel:0", "graph", None, 13 * MIB, status))
    rows.append(MemoryRow("host", "graph", None, MIB, status))
    rows += [MemoryRow("host", "input", None, 29 * MIB, "mapped")] if mapped else []
    rows.append(MemoryRow("gpu:0", "weights", 0, 5 * MIB, status))
    used = sum(row.size for row in rows if row.status == "allocated")
    system = PoolRow(
        "system", ["intel:0", "host"], 9000 * MIB, 7000 * MIB, 8000 * MIB, used, "system"
    )
    return Memory(
        0, rows, [system, PoolRow("gpu", ["gpu:0"], 100 * MIB, None, 90 * MIB, 0, "engine")]
    )


def total(memory: Memory, **fields: object) -> int:
    return sum(
        row.size for row in memory.rows if all(getattr(row, k) == v for k, v in fields.items())
    )


def test_pools_hold_what_the_records_say() -> None:
    planned, held = memory("planned"), memory("allocated")
    system, gpu = pools(planned, held)
    for part in (*system.parts, *gpu.parts):
        if part.mapped:
            assert part.size == 29 * MIB
            continue
        wanted = {"device": part.device, "component": part.component}
        assert part.held == total(held, status="allocated", **wanted)
        assert part.planned == total(planned, status="planned", **wanted)
    own = total(held, status="allocated")
    assert system.held + gpu.held == own
    assert [part.device for part in system.parts][-1] == "host"
    assert gpu.other is None
    assert system.other == 2000 * MIB - system.pool.used
    assert "intel:0 weights" in system.text()


def test_what_is_planned_is_not_held() -> None:
    system = pools(memory("planned"), None)[0]
    assert system.held == 0
    assert system.planned > 0
    assert pools(None, None) == []


@pytest.mark.parametrize("loaded", [0, 7 * MIB, 1000 * MIB])
def test_while_loading_weights_fill_up(loaded: int) -> None:
    sums = pools(memory("planned"), None, loaded)
    parts = [part for pool in sums for part in pool.parts]
    weights = [part for part in parts if part.component == "weights"]
    assert sum(part.held for part in weights) == min(loaded, sum(p.planned for p in weights))
    assert all(part.held <= part.planned for part in weights)
    assert all(part.held == 0 for part in parts if part.component not in ("weights", "mapped"))


def test_layers_add_up_and_are_named() -> None:
    held = memory("allocated")
    found = layers(None, held)
    assert [layer.title for layer in found] == ["0", "1", "2", "3", "out", "shared"]
    for layer in found:
        for component, parts in layer.cells.items():
            if component != "mapped":
                wanted = {"component": component, "layer": layer.layer}
                assert sum(part.held for part in parts) == total(held, **wanted)
    assert {part.device for part in found[0].cells["weights"]} == {"intel:0", "gpu:0"}
    assert layers(None, None) == []
