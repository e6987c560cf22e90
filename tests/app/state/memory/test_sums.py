"""Sums of the engine's records against the records themselves."""

import random

from app.state.memory.allocations import LONGEST, Allocations
from app.state.memory.matrix import grid
from app.state.memory.totals import Cell, allocated, apply, cells, pools
from engine.protocol import Memory, MemoryEvent, MemoryRow, PoolRow

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
        0, rows, [system, PoolRow("gpu", ["gpu:0"], 100 * MIB, None, 90 * MIB, 0, "engine")], 4
    )


def total(memory: Memory, **fields: object) -> int:
    return sum(
        row.size for row in memory.rows if all(getattr(row, k) == v for k, v in fields.items())
    )


def both() -> tuple[Memory, list[Cell]]:
    held = memory("allocated")
    return held, cells(memory("planned"), allocated(held), held)


def test_pools_hold_what_the_records_say() -> None:
    planned = memory("planned")
    held, found = both()
    system, gpu = pools(found, held.pools)
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
    planned = memory("planned")
    system = pools(cells(planned, {}), planned.pools)[0]
    assert system.held == 0
    assert system.planned > 0
    assert pools([], []) == []


def test_a_cell_is_held_when_all_of_it_is() -> None:
    planned, key = memory("planned"), ("intel:0", "weights", 0)
    size = next(row.size for row in planned.rows)
    for held, status in ((0, "planned"), (size - 1, "planned"), (size, "allocated")):
        cell = next(c for c in cells(planned, {key: held}) if c.key == key)
        assert (cell.planned, cell.held, cell.status) == (size, held, status)


def test_every_cell_has_its_place() -> None:
    _, found = both()
    made = grid(found, 4)
    assert [made.title(layer) for layer in made.layers] == ["0", "1", "2", "3", "out", "shared"]
    placed = [cell for row in range(len(made.layers)) for cell in made.row(row)]
    assert {id(cell) for cell in placed} == {id(cell) for cell in found}
    assert len(placed) == len(found)
    assert {cell.device for cell in made.row(0)} == {"intel:0", "gpu:0"}
    assert made.columns[-1] == ("host", "mapped")
    assert grid([], 0).layers == ()


def test_the_output_block_is_told_and_not_guessed() -> None:
    """A model that keeps nothing between steps, and one layer of which holds nothing yet."""
    found = [Cell("host", "weights", layer, 5) for layer in (0, 2, 3)]
    made = grid(found, 3)
    assert [made.title(layer) for layer in made.layers] == ["0", "2", "out"]
    made = grid(found, 4)
    assert [made.title(layer) for layer in made.layers] == ["0", "2", "3"]


def test_the_past_adds_up_also_where_its_beginning_is_forgotten() -> None:
    draw, past, live, held = random.Random(5), Allocations(), [], {}
    used, everything = 0, []
    for time in range(LONGEST + 500):
        if live and draw.random() < 0.45:
            device, component, layer, size = live.pop(draw.randrange(len(live)))
            kind, used = "free", used - size
        else:
            device, component = draw.choice("ab"), draw.choice(("weights", "cache"))
            layer, size, kind = draw.randrange(3), draw.randrange(1, 99), "allocate"
            live.append((device, component, layer, size))
            used += size
        everything.append(
            MemoryEvent(time, kind, "system", device, component, layer, "", size, used)
        )
    past.add(everything)
    apply(everything, held)
    assert sum(held.values()) == used == sum(size for *_, size in live)
    (track,) = past.tracks()
    assert len(track.events) == LONGEST
    for at, event in enumerate(track.events):
        assert sum(sizes[at] for sizes in track.heights.values()) == event.used
    past.end(LONGEST + 501)
    (track,) = past.tracks()
    assert past.events[-1].used == 0
    assert {sizes[-1] for sizes in track.heights.values()} == {0}
