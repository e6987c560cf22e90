"""Writing a file."""

import os
import threading
from pathlib import Path

import pytest

from app.files import output, write_atomically, write_named
from engine.errors import CutawayError


def test_the_old_file_stays_if_writing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    write_atomically(path, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_output_follows_a_link_and_keeps_the_mode(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"old")
    real.chmod(0o640)
    link.symlink_to(real)
    write_named(link, b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert real.stat().st_mode & 0o777 == 0o640


def test_an_output_to_a_pipe_is_written_into_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_named(pipe, b"through")
    reader.join(10)
    assert read == [b"through"]
    assert pipe.is_fifo()


def test_an_output_to_a_full_device_leaves_the_device() -> None:
    with pytest.raises(CutawayError, match="/dev/full cannot be written: No space left"):
        write_named(Path("/dev/full"), b"x")
    assert Path("/dev/full").is_char_device()


def test_an_output_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")

    def half() -> None:
        with output(path) as file:
            file.write(b"ne")
            raise OSError(28, "No space left on device")

    with pytest.raises(CutawayError, match="No space"):
        half()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["", "/", "folder", "nowhere/x", "loop"])
def test_an_output_that_cannot_be_written_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("loop").symlink_to("loop")
    with pytest.raises(CutawayError, match="is a folder|cannot be written"):
        write_named(Path(name), b"x")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "loop"]
