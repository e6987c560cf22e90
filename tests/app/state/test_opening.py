"""One model in place of another: the one that works is given up only for one that can work."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.state.problem import Problem
from app.state.workbench import Workbench
from engine import protocol
from engine.settings import EngineOptions
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.state.conftest import Until
from tests.app.test_library import put


@pytest.fixture
def works(qapp: object, own_home: Path, tmp_path: Path) -> Iterator[Workbench]:
    """A bench with a model open."""
    scripted = ScriptedEngine()
    bench = Workbench(scripted, tmp_path / "config", tmp_path / "data")
    scripted.deliver = bench.client.drain
    bench.open_model(put(tmp_path / "works.gguf"), EngineOptions(ctx=1024))
    engine(bench).load_done(n_ctx=1024)
    assert bench.session.status == "ready"
    yield bench
    bench.close()


@pytest.fixture
def refused(works: Workbench) -> list[Problem]:
    heard: list[Problem] = []
    works.session.refused.connect(heard.append)
    return heard


def engine(bench: Workbench) -> ScriptedEngine:
    assert isinstance(bench.engine, ScriptedEngine)
    return bench.engine


def loads(bench: Workbench) -> list[str]:
    asked = engine(bench).asked
    return [Path(r.path).name for r in asked if isinstance(r, protocol.Load)]


def fail(bench: Workbench, kind: str = "NoMem") -> None:
    engine(bench).say(protocol.Failed(engine(bench).last.id, kind, "it did not work"))


def test_a_broken_file_costs_nothing(
    works: Workbench, refused: list[Problem], tmp_path: Path, until: Until
) -> None:
    session, model = works.session, works.session.model
    (tmp_path / "broken.gguf").write_bytes(b"GGUF\x03")
    (tmp_path / "text.gguf").write_bytes(b"hello")
    for name in ("broken.gguf", "text.gguf", "none.gguf"):
        refused.clear()
        works.open_model(tmp_path / name)
        assert (session.status, session.model_name) == ("loading", name.removesuffix(".gguf"))
        assert session.model is model
        until(lambda: refused)
        assert name in refused[0].text
        assert refused[0].action == "open"
        assert (session.status, session.model, session.error) == ("ready", model, None)
        assert session.path == tmp_path / "works.gguf"
        assert session.options.ctx == 1024
    assert loads(works) == ["works.gguf"]
    assert works.preferences.value.last_model == str(tmp_path / "works.gguf")
    assert works.chat.send("hello")
    assert isinstance(engine(works).last, protocol.Generate)


def test_an_answer_goes_on_while_a_file_is_checked(
    works: Workbench, refused: list[Problem], tmp_path: Path, until: Until
) -> None:
    assert works.chat.send("hello")
    (tmp_path / "broken.gguf").write_bytes(b"GGUF\x03")
    works.open_model(tmp_path / "broken.gguf")
    engine(works).write("one ")
    until(lambda: refused)
    assert works.session.status == "answering"
    engine(works).write("two")
    engine(works).end()
    assert works.session.status == "ready"
    assert works.chat.path[1].text == "one two"


def test_a_good_file_takes_its_place(works: Workbench, tmp_path: Path, until: Until) -> None:
    works.open_model(put(tmp_path / "first.gguf"))
    works.open_model(put(tmp_path / "second.gguf"))  # the person changed their mind
    until(lambda: len(loads(works)) == 2)
    assert loads(works) == ["works.gguf", "second.gguf"]
    assert works.session.model is None
    engine(works).load_done()
    assert (works.session.status, works.session.previous) == ("ready", None)
    assert [Path(file).name for file in works.preferences.value.recent] == [
        "second.gguf",
        "works.gguf",
    ]


def test_the_way_back_from_a_load_that_failed(
    works: Workbench, tmp_path: Path, until: Until
) -> None:
    session = works.session
    works.open_model(put(tmp_path / "large.gguf"))
    until(lambda: len(loads(works)) == 2)
    fail(works)
    assert session.status == "failed"
    assert session.previous is not None
    assert session.previous.path == tmp_path / "works.gguf"
    session.open_previous()
    request = engine(works).last
    assert isinstance(request, protocol.Load)
    assert (Path(request.path).name, request.options.ctx) == ("works.gguf", 1024)
    engine(works).load_done(n_ctx=1024)
    assert (session.status, session.previous, session.error) == ("ready", None, None)
    assert works.preferences.value.last_model == str(tmp_path / "works.gguf")


def test_stopping_while_a_file_is_checked(
    works: Workbench, refused: list[Problem], tmp_path: Path, qapp: object, until: Until
) -> None:
    model = works.session.model
    put(tmp_path / "other.gguf")
    works.open_model(tmp_path / "other.gguf")
    works.session.cancel_load()
    assert (works.session.status, works.session.model) == ("ready", model)
    works.open_model(tmp_path / "other.gguf")
    works.session.restart()
    assert loads(works) == ["works.gguf", "works.gguf"]
    engine(works).load_done()
    works.open_model(tmp_path / "other.gguf")
    works.session.unload()
    assert (works.session.status, works.session.path) == ("idle", None)
    works.open_model(tmp_path / "works.gguf")
    engine(works).load_done()
    works.open_model(tmp_path / "other.gguf")
    until(lambda: loads(works)[-1] == "other.gguf")
    assert loads(works) == ["works.gguf"] * 3 + ["other.gguf"]
    assert refused == []


def test_a_context_that_was_cut(works: Workbench, tmp_path: Path, until: Until) -> None:
    session = works.session
    assert session.context_cut is None
    works.open_model(tmp_path / "works.gguf", EngineOptions(ctx=100_000))
    assert session.context_cut is None or session.status == "loading"
    until(lambda: len(loads(works)) == 2)
    assert session.context_cut is None
    engine(works).load_done(n_ctx=2048)
    assert session.context_cut == 100_000
    assert session.model is not None
    assert session.model.n_ctx == 2048
