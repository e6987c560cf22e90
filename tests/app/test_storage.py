"""Models are deleted and moved: what is listed goes, nothing else, and stopping loses nothing."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app import storage, stores
from app.library import Stored, list_models
from app.storage import StorageError, deletion, move
from tests.app.test_stores import hub_file, put


@pytest.fixture
def home(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("OLLAMA_MODELS", raising=False)
    monkeypatch.setattr(stores, "OLLAMA_SERVICE", own_home / "service")
    return own_home


def own(home: Path, name: str, content: bytes = b"model" * 999) -> Stored:
    path = home / "data" / "cutaway" / "models" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return Stored(name, (path,), len(content), "own", False)


def files(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if not p.is_dir())


def test_a_file_of_ours_is_deleted_with_its_projector(home: Path) -> None:
    one, other, tower = own(home, "a.gguf"), own(home, "b.gguf"), own(home, "mmproj.gguf")
    both = [
        Stored("a", one.paths, one.size, "own", False, projector=tower.paths[0]),
        Stored("b", other.paths, other.size, "own", False, projector=tower.paths[0]),
    ]
    shared = deletion(both[0], both)
    assert (shared.files, shared.size) == (one.paths, one.size)
    storage.delete(shared)
    alone = deletion(both[1], [both[1]])
    assert (alone.files, alone.size) == ((*other.paths, *tower.paths), other.size + tower.size)
    storage.delete(alone)
    assert files(home / "data") == []


@pytest.mark.parametrize(
    ("origin", "step"),
    [("ollama", "`ollama rm m:7b`"), ("lm studio", "LM Studio"), ("gpt4all", "GPT4All")],
)
def test_other_programs_models_are_theirs(home: Path, origin: str, step: str) -> None:
    path = put(home / "x.gguf", 1)
    theirs = Stored("m:7b", (path,), 1, origin, False)  # type: ignore[arg-type]
    for change in (deletion, lambda model: move(model, home / "there")):
        with pytest.raises(StorageError, match=step):
            change(theirs)
    assert path.exists()


def test_the_cache_loses_a_revision_or_a_link(home: Path) -> None:
    """A blob that another revision links to under another name stays as long as that is there."""
    hub_file(home, "org/repo", "r1", "m-Q4_0.gguf", 1)
    hub_file(home, "org/repo", "r1", "m-Q8_0.gguf", 2)
    hub_file(home, "org/repo", "r2", "m-Q8_0.gguf", 3)
    hub_file(home, "org/keep", "r1", "k-Q4_0.gguf", 4)
    other = hub_file(home, "org/both", "r1", "b-Q4_0.gguf", 5).with_name("model.safetensors")
    other.write_bytes(b"not listed, so not deleted")
    listed = {(model.name, model.paths[0].parent.name): model for model in list_models()}
    first = listed["org/repo:Q4_0", "r1"]
    planned = deletion(first)
    assert [path.name for path in planned.files] == ["m-Q4_0.gguf"]
    assert planned.size == first.size
    storage.delete(planned)
    cache = home / "hf" / "hub" / "models--org--repo"
    assert sorted(p.name[-1] for p in (cache / "blobs").iterdir()) == ["2", "3"]
    storage.delete(deletion(listed["org/repo:Q8_0", "r2"]))  # the revision's only model
    assert [p.name for p in (cache / "snapshots").iterdir()] == ["r1"]
    assert sorted(p.name[-1] for p in (cache / "blobs").iterdir()) == ["2"]
    storage.delete(deletion(listed["org/both:Q4_0", "r1"]))
    assert other.exists()
    assert {model.name for model in list_models()} == {"org/repo:Q8_0", "org/keep:Q4_0"}


def test_one_blob_of_two_revisions_is_one_model(home: Path) -> None:
    link = hub_file(home, "org/repo", "r1", "m-Q4_0.gguf", 1)
    hub_file(home, "org/repo", "r1", "m-Q8_0.gguf", 2)
    second = link.parent.parent / "r2" / "m-Q4_0.gguf"
    second.parent.mkdir()
    second.symlink_to(link.resolve())
    model = Stored("org/repo:Q4_0", (link,), 1, "hugging face", False)
    planned = deletion(model)
    assert set(planned.files) == {link, second}
    assert planned.size == link.stat().st_size
    storage.delete(planned)
    assert not (home / "hf/hub/models--org--repo/blobs" / f"{1:064x}").exists()


def test_a_model_moves_and_is_found_there(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = hub_file(home, "org/repo", "r1", "m-Q4_0.gguf", 1)
    content = link.read_bytes()
    model = Stored("org/repo:Q4_0", (link,), len(content), "hugging face", False)
    seen: list[tuple[int, int]] = []
    folder = home / "disk"
    path = move(model, folder, lambda done, total: seen.append((done, total)))
    assert path == folder / "org" / "repo" / "m-Q4_0.gguf"
    assert (path.read_bytes(), seen[-1]) == (content, (len(content), len(content)))
    assert files(home / "hf" / "hub") == []
    monkeypatch.setenv("CUTAWAY_MODELS", str(folder))
    from app.library import resolve

    assert resolve("org/repo:Q4_0") == path


def test_parts_move_together_or_not_at_all(home: Path) -> None:
    names = [f"big-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
    paths = tuple(own(home, name, bytes([i]) * 9_000_000).paths[0] for i, name in enumerate(names))
    model = Stored("big", paths, 27_000_000, "own", False)
    folder, calls = home / "disk", [0]

    def cancelled() -> bool:
        calls[0] += 1
        return calls[0] > 5

    with pytest.raises(StorageError, match="the file is still in its old place"):
        move(model, folder, cancelled=cancelled)
    assert files(folder) == []
    assert [path.exists() for path in paths] == [True] * 3
    (folder / names[1]).write_bytes(b"mine")
    with pytest.raises(StorageError, match="another file has that name"):
        move(model, folder)
    assert files(folder) == [names[1]]
    (folder / names[1]).unlink()
    assert move(model, folder) == folder / names[0]
    assert files(folder) == names
    assert not any(path.exists() for path in paths)


def test_a_copy_that_differs_is_not_switched_to(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = own(home, "a.gguf")
    fsync = os.fsync

    def rot(handle: int) -> None:
        fsync(handle)
        os.pwrite(handle, b"X", 10)

    monkeypatch.setattr(os, "fsync", rot)
    with pytest.raises(StorageError, match="differs from .* after copying"):
        move(model, home / "disk")
    assert model.paths[0].exists()
    assert files(home / "disk") == []


def test_a_full_disk_is_told_before(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = own(home, "a.gguf")
    monkeypatch.setattr(storage, "MARGIN", 1 << 60)
    with pytest.raises(StorageError, match="moving needs 0.0 GB in .* 0.0 GB are free"):
        move(model, home / "disk")


CHILD = """
import sys, time
from pathlib import Path
from app import storage
from app.library import Stored
storage.CHUNK = 1 << 16
path = Path(sys.argv[1])
model = Stored("a", (path,), 1, "own", False)
storage.move(model, Path(sys.argv[2]), lambda done, total: time.sleep(0.002))
"""


def test_killed_while_moving(home: Path, nothing_left: None) -> None:
    model = own(home, "a.gguf", os.urandom(1 << 24))
    content, folder = model.paths[0].read_bytes(), home / "disk"
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(model.paths[0]), str(folder)])
    part = folder / "a.gguf.part"
    while not (part.exists() and part.stat().st_size > 1 << 20) and child.poll() is None:
        time.sleep(0.005)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert model.paths[0].read_bytes() == content
    assert files(folder) == ["a.gguf.part"]
    assert move(model, folder).read_bytes() == content
    assert files(folder) == ["a.gguf"]
