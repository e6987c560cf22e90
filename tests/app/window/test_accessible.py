"""The keyboard comes to what no scene of `test_legible` has, and bars say their numbers."""

from pathlib import Path

from app.window.main_window import MainWindow
from engine.protocol import Generate, Memory
from tests.app.helpers.recorded import recorded
from tests.app.helpers.records import memory
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.rest import come_to_rest
from tests.app.window.scenes.reached import nameless, unreached


def ready(window: MainWindow) -> None:
    """A model is open, a chat has an answer, memory is shown."""
    client = window.bench.engine
    assert isinstance(client, ScriptedEngine)
    window.bench.open_model(Path("/models/SmolLM2-135M-Instruct.Q4_1.gguf"))
    client.say(memory("planned"), memory("allocated"))
    client.load_done()
    assert window.bench.chat.send("What is the capital of France?")
    client.write("The capital", " is Paris.")
    client.end()


def test_the_log(window: MainWindow) -> None:
    window.drawer.set_open(True)
    come_to_rest(window, window.bench)
    assert nameless(window) == []
    assert unreached(window) == []


def test_a_recorded_answer(window: MainWindow) -> None:
    ready(window)
    client = window.bench.engine
    assert isinstance(client, ScriptedEngine)
    assert window.bench.chat.send("Again")
    client.say(recorded(client.last_of(Generate).id))  # type: ignore[attr-defined]
    client.end()
    window.panes.show_tab("profile")
    come_to_rest(window, window.bench)
    assert nameless(window) == []
    assert unreached(window) == []


def test_bars_say_their_numbers(window: MainWindow) -> None:
    ready(window)
    said = [bar.accessibleDescription() for bar in window.inspector.memory.bars.bars]
    assert len(said) == 2
    assert "intel:0 weights 16.0 MiB" in said[0]
    assert "nvidia:0 weights 36.0 MiB" in said[1]


def test_records_are_not_lost_in_the_chart(window: MainWindow) -> None:
    ready(window)
    held: Memory | None = window.bench.memory.held
    assert held is not None
    assert list(window.inspector.memory.records.rows.all_rows) == held.rows
