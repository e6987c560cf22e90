"""Bars, matrix, table and timeline with real devices: to the byte what `cutaway plan` says."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from app.window.main_window import MainWindow
from app.window.program import shown_window
from engine.protocol import MemoryEvents, Sampling
from engine.settings import EngineOptions
from tests.app.end_to_end.person import Person
from tests.app.helpers.shots import take
from tests.engine.runner.memory import two_devices
from tests.program import run

pytestmark = [pytest.mark.model_file, pytest.mark.device]
MIB = 1 << 20
CTX = 512
Key = tuple[str, str, int | None]


@pytest.fixture
def window(qapp: QApplication, home_with_models: Path) -> Iterator[MainWindow]:
    """A window that has never opened a model, at its Memory tab."""
    with shown_window(qapp) as window:
        window.resize(1600, 1000)
        window.panes.show_tab("memory")
        yield window


def plan(path: Path, options: EngineOptions) -> dict[str, Any]:
    """What the command line says."""
    assert options.device is not None
    words = ["--device", options.device, "--ctx", str(CTX), "--place", options.place]
    for device, size in options.budget.items():
        words += ["--budget", f"{device}={size // MIB}"]
    ended = run("plan", str(path), "--json", *words)
    assert ended.returncode == 0, ended
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def in_matrix(window: MainWindow) -> dict[Key, tuple[int, int, str]]:
    """Planned, held and status of what the matrix shows, place for place."""
    rows, found = window.inspector.memory.matrix.rows, {}
    for row in range(rows.rowCount()):
        for column in range(1, rows.columnCount()):
            cell = rows.cell(rows.index(row, column))
            if cell is not None:
                found[cell.key] = (cell.planned, cell.held, cell.status)
    return found


def agree(window: MainWindow) -> dict[Key, tuple[int, int, str]]:
    """What the matrix shows, which the bars and the table show too."""
    found = in_matrix(window)
    planned: Counter[tuple[str, str]] = Counter()
    held: Counter[tuple[str, str]] = Counter()
    for (device, component, _), (size, there, status) in found.items():
        kind = "mapped" if status == "mapped" else component
        planned[device, kind] += size
        held[device, kind] += there
    bars = (bar for bar in window.inspector.memory.bars.bars if not bar.isHidden())
    parts = [p for bar in bars for p in bar.parts]
    assert {(p.device, p.component): (p.planned, p.held) for p in parts} == {
        at: (planned[at], held[at]) for at in planned
    }
    records = window.inspector.memory.records.rows.all_rows
    listed = {(r.device, r.component, r.layer): (r.size, r.status) for r in records}
    assert listed == {at: (max(size, there), s) for at, (size, there, s) in found.items()}
    return found


def foreseen(planned: dict[str, Any]) -> dict[Key, tuple[int, str]]:
    rows = planned["memory"]["rows"]
    return {(r["device"], r["component"], r["layer"]): (r["size"], r["status"]) for r in rows}


def test_what_does_not_fit_and_what_does(
    qtbot: Any, window: MainWindow, home_with_models: Path, expected: list[str], folder: Path
) -> None:
    one, two = two_devices()
    path = home_with_models / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    place = f"0-14={one},15-29={two},out={one}"
    tight = EngineOptions(device=one, ctx=CTX, place=place, budget={two: 20 * MIB})
    roomy = EngineOptions(device=one, ctx=CTX, place=place)
    person, session, memory = Person(qtbot, window), window.bench.session, window.bench.memory
    seen: list[dict[Key, tuple[int, int, str]]] = []
    memory.changed.connect(lambda: seen.append(agree(window)))

    # What does not fit
    said = plan(path, tight)
    assert said["problem"]
    expected.append("no room for")
    window.bench.open_model(path, tight)
    person.wait(lambda: session.status == "failed")
    sizes = {at: size for at, (size, _) in foreseen(said).items()}
    assert {at: size for at, (size, _, _) in seen[0].items()} == sizes
    assert {status for *_, status in seen[0].values()} == {"planned", "mapped"}
    after = agree(window)
    assert {at: size for at, (size, _, _) in after.items()} == sizes
    (failed,) = [at for at, (*_, status) in after.items() if status == "failed"]
    assert failed[0] == two
    assert f"no room for {failed[1]} of layer {failed[2]}" in said["problem"]
    assert said["problem"] in window.inspector.memory.details.text()
    assert all(held == 0 for _, held, status in after.values() if status != "mapped")
    assert memory.allocations.events[-1].kind == "refuse"

    take(person, folder, "memory-refused")

    # What does
    said, seen[:] = plan(path, roomy), []
    assert not said["problem"]
    wanted = foreseen(said)
    window.bench.open_model(path, roomy)
    person.wait(lambda: session.status == "ready")
    for shown in seen[:1]:  # before anything is held
        assert {at: (size, status) for at, (size, _, status) in shown.items()} == wanted
    assert any(sum(held for _, held, _ in shown.values()) > 0 for shown in seen)
    after = agree(window)
    assert {at: held for at, (_, held, _) in after.items()} == {
        at: size for at, (size, _) in wanted.items()
    }
    assert {status for *_, status in after.values()} == {"allocated", "mapped"}
    assert {device for device, *_ in after} == {one, two, "host"}

    take(person, folder, "memory-two-devices")

    # And what each split takes, as planned, during an answer
    window.inspector.memory.show_page("splits")
    window.bench.chat.details.set_sampling(Sampling(temperature=0))
    person.click("Message")
    person.type("What is a bit?")
    person.key(Qt.Key.Key_Return)
    person.wait(lambda: not window.bench.chat.busy)
    splits = window.bench.splits.splits
    assert [(s.device, s.n_nodes, s.first, s.last) for s in splits] == [
        (s["device"], s["n_nodes"], s["first"], s["last"]) for s in said["splits"]
    ]
    assert {s.device for s in splits} >= {one, two}
    assert min(s.compute_ns for s in splits) > 0
    assert [s for _, s in window.inspector.memory.splits.rows.shown] == splits
    take(person, folder, "memory-splits")

    # And as it came to that
    window.inspector.memory.show_page("timeline")
    take(person, folder, "memory-timeline")
    (track,) = (t.track for t in window.inspector.memory.tracks.tracks if t.isVisible())
    for at, event in enumerate(track.events):
        assert sum(heights[at] for heights in track.heights.values()) == event.used
    now = Counter[tuple[str, str]]()
    for (device, component, _), (_, held, status) in after.items():
        if status == "allocated":
            now[device, component] += held
    assert {owner: heights[-1] for owner, heights in track.heights.items() if heights[-1]} == now
    assert window.inspector.memory.events.rows.total == len(memory.allocations.events)
    window.inspector.memory.show_page("layers")
    window.bench.session.unload()
    person.wait(lambda: not memory.cells)
    assert memory.allocations.events[-1].used == 0


def test_a_load_is_watched_on_the_way(
    qtbot: Any, window: MainWindow, home_with_models: Path, expected: list[str]
) -> None:
    """Between two messages of the engine: the matrix takes every event into account."""
    expected.append("loading did not stop")  # the last model's, while a driver compiles
    person, memory = Person(qtbot, window), window.bench.memory
    window.bench.open_model(home_with_models / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf")
    steps: list[int] = []
    window.bench.client.on(
        MemoryEvents,
        lambda _: steps.append(sum(h for _, h, s in agree(window).values() if s != "mapped")),
    )
    person.wait(lambda: window.bench.session.status == "ready")
    assert steps[-1] == memory.allocations.events[-1].used
    person.see("Memory by layer, in MiB").setFocus()
    for _ in range(5):
        person.key(Qt.Key.Key_Down)
    person.key(Qt.Key.Key_Right)
    now = window.bench.selection.now
    assert (now.component, now.layer) == ("weights", 5)
    assert "layer 5" in window.inspector.memory.details.text()
