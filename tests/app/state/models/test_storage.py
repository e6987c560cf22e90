"""Deleting and moving in the background; folders that are watched."""

import os
from pathlib import Path

import pytest

from app import storage
from app.library import Stored
from app.state.models.library import LibraryState
from app.state.models.storage import StorageState
from app.storage import StorageError
from app.work import close_jobs
from tests.app.state.conftest import Until
from tests.goldens.tiny import write_tiny


def stored(path: Path, size: int = 9) -> Stored:
    path.write_bytes(os.urandom(size))
    return Stored(path.stem, (path,), size, "own", False)


@pytest.fixture
def state(qapp: object, tmp_path: Path) -> StorageState:
    return StorageState(list, lambda: tmp_path / "open.gguf")


def test_deleted_and_moved(state: StorageState, tmp_path: Path, until: Until) -> None:
    one, other = stored(tmp_path / "a.gguf"), stored(tmp_path / "b.gguf")
    ended: list[tuple[str, Path | None]] = []
    state.finished.connect(lambda name, path: ended.append((name, path)))
    planned = state.deletion(one)
    assert (planned.files, planned.size) == (one.paths, 9)
    state.delete(planned)
    assert state.busy
    state.delete(planned)  # nothing, while it is under way
    until(lambda: ended)
    state.move(other, tmp_path / "there")
    until(lambda: len(ended) == 2)
    assert ended == [("a", None), ("b", tmp_path / "there" / "b.gguf")]
    assert (state.task, one.paths[0].exists(), other.paths[0].exists()) == (None, False, False)
    close_jobs()


def test_stopped_and_failed(
    state: StorageState, tmp_path: Path, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "CHUNK", 1 << 12)
    model = stored(tmp_path / "a.gguf", 1 << 25)
    state.move(model, tmp_path / "there")
    until(lambda: state.task is not None and state.task.done)
    state.cancel()
    until(lambda: not state.busy)
    assert state.task is None
    assert model.paths[0].exists()
    assert list((tmp_path / "there").iterdir()) == []
    (tmp_path / "there" / "a.gguf").touch()
    state.move(model, tmp_path / "there")
    until(lambda: not state.busy)
    assert state.task is not None
    assert "another file has that name" in state.task.problem
    with pytest.raises(StorageError, match="open is open; open another model first"):
        state.deletion(stored(tmp_path / "open.gguf"))
    close_jobs()


def test_a_file_that_comes_is_listed_and_a_part_is_not(
    qapp: object, own_home: Path, until: Until, tmp_path: Path
) -> None:
    folder = own_home / "data" / "cutaway" / "models"
    folder.mkdir(parents=True)
    library = LibraryState()
    library.refresh()
    until(lambda: library.known and not library.looking)
    assert library.models == []
    write_tiny(tmp_path / "tiny.gguf", "llama")
    content = (tmp_path / "tiny.gguf").read_bytes()
    (folder / "tiny.gguf.part").write_bytes(content)
    (folder / "tiny.gguf.part.json").write_bytes(b"{}")
    looks: list[int] = []
    library.changed.connect(lambda: looks.append(len(library.models)))
    until(lambda: len(looks) >= 2 and not library.looking)
    assert library.models == []
    (folder / "tiny.gguf.part").rename(folder / "tiny.gguf")
    until(lambda: library.models)
    assert [model.paths[0].name for model in library.models] == ["tiny.gguf"]
    (folder / "tiny.gguf").unlink()
    until(lambda: library.models == [])
    close_jobs()


def test_an_activated_window_looks_again_but_not_at_once(
    qapp: object, own_home: Path, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = LibraryState()
    library.look_again()  # nobody has looked yet
    assert not library.looking
    library.refresh()
    until(lambda: not library.looking)
    library.look_again()
    assert not library.looking
    monkeypatch.setattr("app.state.models.library.RECENT_S", 0.0)
    library.look_again()
    assert library.looking
    until(lambda: not library.looking)
    close_jobs()
