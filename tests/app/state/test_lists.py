"""The list of chats, the log, the library and the memory: state without engine."""

import errno
import logging
import threading
from pathlib import Path

import pytest
from PySide6.QtCore import QObject

from app.client import EngineClient
from app.engine import Died, Restarted
from app.library import Stored
from app.state.log import LONGEST, LogState
from app.state.memory.memory import MemoryState
from app.state.models import library
from app.state.models.library import LibraryState
from app.state.problem import Problem
from app.state.selection import Selection
from app.state.talk.chats import ChatList
from app.state.talk.disk.store import ChatRow, ChatStore
from app.state.workbench import Workbench
from app.work import close_jobs
from engine.errors import WorkerDied
from engine.protocol import Failed, HeldMemory, Load, MemoryRow, PlannedMemory, Unloaded
from engine.settings import EngineOptions
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.state.conftest import Until


def titles(chats: ChatList) -> list[str]:
    return [row.title for row in chats.rows]


class TestChatList:
    """What the list does with the store."""

    @pytest.fixture
    def chats(self, store: ChatStore, qapp: object) -> ChatList:
        for title in ("one", "two", "three"):
            store.create(title)
        return ChatList(store)

    def test_search_rename_duplicate(self, chats: ChatList, until: Until) -> None:
        arrived: list[int] = []
        chats.arrived.connect(arrived.append)
        changes: list[None] = []
        chats.changed.connect(lambda: changes.append(None))
        assert titles(chats) == ["three", "two", "one"]
        chats.search("t")
        assert titles(chats) == ["three", "two"]
        chats.rename(chats.rows[0].id, "  drei ")
        assert titles(chats) == ["two"]
        chats.rename(chats.rows[0].id, "  ")
        chats.search("")
        assert titles(chats) == ["drei", "two", "one"]
        chats.duplicate(chats.rows[0].id)
        until(lambda: arrived)
        assert (titles(chats)[0], chats.rows[0].id) == ("drei (copy)", arrived[0])
        n = len(changes)
        chats.refresh()
        assert len(changes) == n  # nothing was different

    def test_delete_and_undo(self, chats: ChatList) -> None:
        deleted: list[ChatRow] = []
        chats.deleted.connect(deleted.append)
        ids = [row.id for row in chats.rows]
        chats.delete(ids[0])
        chats.delete(ids[1])
        chats.delete(ids[1])
        assert ([row.title for row in deleted], titles(chats)) == (["three", "two"], ["one"])
        assert chats.undo_delete() == ids[1]
        assert chats.undo_delete() == ids[0]
        assert chats.undo_delete() is None
        assert titles(chats) == ["three", "two", "one"]

    def test_in_and_out(self, chats: ChatList, tmp_path: Path, until: Until) -> None:
        problems: list[Problem] = []
        arrived: list[int] = []
        exported: list[Path] = []
        chats.problem.connect(problems.append)
        chats.arrived.connect(arrived.append)
        chats.exported.connect(exported.append)
        chats.export(chats.rows[0].id, tmp_path / "x.json")
        chats.import_file(tmp_path / "x.json")  # one at a time
        assert [problem.kind for problem in problems] == ["Busy"]
        until(lambda: exported)
        assert chats.transfer is None
        chats.import_file(tmp_path / "x.json")
        until(lambda: arrived)
        assert (titles(chats)[0], chats.rows[0].id) == ("three", arrived[0])
        chats.import_file(tmp_path / "no.json")
        until(lambda: len(problems) == 2)
        chats.export(chats.rows[0].id, tmp_path / "x.json" / "y.md")
        until(lambda: len(problems) == 3)
        assert "no.json: No such file" in problems[1].text
        assert "cannot be written" in problems[2].text

    def test_another_window(self, chats: ChatList, tmp_path: Path) -> None:
        chats.refresh_if_changed()
        other = ChatStore(tmp_path / "chats.sqlite")
        other.create("elsewhere")
        assert titles(chats) == ["three", "two", "one"]
        chats.refresh_if_changed()
        assert titles(chats)[0] == "elsewhere"
        other.close()


def test_log(qapp: object, until: Until) -> None:
    root = logging.getLogger()
    before = root.level, list(root.handlers)
    state = LogState()
    thread = threading.Thread(target=logging.getLogger("engine.x").info, args=("%d ok", 5))
    thread.start()
    thread.join()
    try:
        raise ValueError("bad")
    except ValueError:
        logging.getLogger("window").exception("it failed")
    logging.getLogger("window").debug("unheard")
    logging.getLogger("httpx2").info("HTTP Request: GET http://127.0.0.1")  # each would be news
    until(lambda: len(state.lines) == 2)
    first, second = state.lines
    assert (first.source, first.level, first.text, first.details) == (
        "engine",
        logging.INFO,
        "5 ok",
        "",
    )
    assert second.text == "it failed"
    assert second.details.endswith("ValueError: bad")
    dropped: list[int] = []
    state.dropped.connect(dropped.append)
    for n in range(LONGEST + 10):
        logging.getLogger("fetch").info("%d", n)
    until(lambda: state.lines[-1].text == str(LONGEST + 9))
    assert (len(state.lines), state.lines[0].text, sum(dropped)) == (LONGEST, "10", 12)
    state.clear()
    assert state.lines == []
    state.close()
    state.close()
    assert (root.level, root.handlers) == before


def test_library(qapp: object, until: Until, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []

    def look(*_: object) -> list[Stored]:
        looks.append(1)
        if len(looks) == 3:
            raise PermissionError(errno.EACCES, "Permission denied", "models")
        file = Path("smollm2-135m-instruct.q4_1.GGUF")
        return [Stored("smollm2-135m", (file,), 1, "own", False)]

    monkeypatch.setattr(library, "list_models", look)
    state = LibraryState()
    state.refresh()
    state.refresh()  # comes after the first
    assert (state.looking, state.known) == (True, False)
    until(lambda: not state.looking and len(looks) == 2)
    assert [model.name for model in state.models] == ["smollm2-135m"]
    state.refresh()
    until(lambda: not state.looking)
    assert state.problem == "models: Permission denied"
    assert [model.name for model in state.models] == ["smollm2-135m"]
    close_jobs()


def test_opening_a_listed_model_looks_at_no_disk(
    qapp: object, tmp_path: Path, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, other = tmp_path / "here.gguf", tmp_path / "other.gguf"
    looks: list[int] = []

    def look(*_: object) -> list[Stored]:
        looks.append(1)
        return [Stored("here", (here,), 1, "own", False)]

    monkeypatch.setattr(library, "list_models", look)
    bench = Workbench(ScriptedEngine(), tmp_path / "config", tmp_path / "data")
    bench.library.refresh()
    until(lambda: bench.library.known and not bench.library.looking)
    for path, times in ((here, 1), (other, 2), (here, 2)):
        bench.preferences.remember_opened(str(path))
        until(lambda: not bench.library.looking)
        assert len(looks) == times
    bench.close()


def test_memory(qapp: object) -> None:
    engine = ScriptedEngine()
    client = EngineClient(engine)
    engine.deliver = client.drain
    state = MemoryState(client)
    heard: list[str] = []
    state.changed.connect(lambda: heard.append("changed"))
    state.prediction_changed.connect(lambda: heard.append("prediction"))
    planned = PlannedMemory(
        0,
        [
            MemoryRow("a", "weights", 0, 5, "planned"),
            MemoryRow("a", "weights", 1, 6, "planned"),
            MemoryRow("a", "cache", None, 7, "planned"),
            MemoryRow("host", "weights", None, 8, "mapped"),
        ],
        [],
        1,
    )
    held = HeldMemory(0, [MemoryRow("a", "weights", 0, 5, "allocated")], [], 1)
    engine.say(planned)
    engine.say(held)
    assert (state.planned, state.held) == (planned, held)
    assert {c.key: (c.planned, c.held, c.status) for c in state.cells} == {
        ("a", "weights", 0): (5, 5, "allocated"),
        ("a", "weights", 1): (6, 0, "planned"),
        ("a", "cache", None): (7, 0, "planned"),
        ("host", "weights", None): (8, 0, "mapped"),
    }
    state.predict("a.gguf", EngineOptions())
    engine.predict(planned)
    assert state.predicted is not None
    assert state.predicted.rows == planned.rows
    state.predict("b.gguf", EngineOptions())
    engine.say(Failed(engine.last.id, "BadFile", "no such file"))
    assert (state.predicted, state.prediction_problem) == (None, "no such file")
    engine.say(Unloaded(0))
    assert (state.planned, state.held) == (None, None)
    assert heard == ["changed", "changed", "prediction", "prediction", "changed"]
    client.close()


def test_memory_keeps_its_last_picture_when_the_engine_dies(qapp: object) -> None:
    engine = ScriptedEngine()
    client = EngineClient(engine)
    engine.deliver = client.drain
    state = MemoryState(client)
    loading = client.open(Load(0, "a.gguf", EngineOptions())).id
    engine.say(PlannedMemory(0, [MemoryRow("a", "weights", 0, 5, "planned")], [], 1))
    engine.say(HeldMemory(0, [MemoryRow("a", "weights", 0, 5, "allocated")], [], 1))
    picture = list(state.cells)
    assert picture
    assert not state.died
    engine.say(Died(WorkerDied(-9, "killed")), Failed(loading, "WorkerDied", "killed"))
    assert (state.cells, state.died) == (picture, True)
    engine.say(Restarted())
    assert (state.cells, state.died) == ([], False)
    client.close()


def test_parents(qapp: object) -> None:
    parent = QObject()
    assert Selection(parent).parent() is parent
