"""Pictures on the command line: `run --image`, `/image` in a chat, what is told of them."""

import json
import os
from pathlib import Path
from threading import Thread

import pytest
from PIL import Image

from app.terminal import pictures
from app.terminal.engine import CommandEngine
from engine.errors import BadPicture
from engine.settings import EngineOptions
from tests.engine.runner.pictures.seeing import noise
from tests.goldens.vision.families import write_pair
from tests.in_process import run_here
from tests.program import Terminal, assert_one_line_error

pytestmark = pytest.mark.usefixtures("nothing_left")
HOST = ("--device", "host", "--temp", "0", "--max-tokens", "3")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Gemma 3 with its mmproj beside it, and two pictures."""
    folder = tmp_path_factory.mktemp("seeing")
    write_pair(folder, "gemma3")
    Image.fromarray(noise(1)).save(folder / "a.png")
    Image.fromarray(noise(2, 31, 17)).save(folder / "b.webp", lossless=True)
    return folder


def test_an_answer_about_two_pictures_tells_of_each(folder: Path) -> None:
    images = ("--image", str(folder / "a.png"), "--image", str(folder / "b.webp"))
    ended = run_here("run", str(folder / "gemma3.gguf"), "-p", "what", *images, *HOST, "--json")
    assert ended.returncode == 0, ended.stderr
    stats = json.loads(ended.stdout)["stats"]
    first, second = stats["pictures"]
    assert (first["width"], first["height"], second["width"]) == (60, 45, 31)
    assert (first["n_tokens"], first["n_rows"], first["views"]) == (20, 16, [[112, 112]])
    assert stats["n_image_rows"] == 32
    assert stats["encode_s"] == pytest.approx(first["encode_s"] + second["encode_s"])
    assert min(first["encode_s"], second["encode_s"]) > 0


@pytest.mark.only_linux("pipes in folders")
def test_a_pipe_is_read_while_its_writer_sends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setattr(pictures, "WAITS", 0.05)
    with open(os.open(pipe, os.O_RDWR), "wb") as writer:
        with pytest.raises(BadPicture, match=r"nothing came from its writer for 0\.05 s"):
            pictures.PicturesInWorker(CommandEngine(Path(), EngineOptions())).send(pipe)
        brought: list[bytes] = []
        monkeypatch.setattr(pictures.PicturesInWorker, "send_data", lambda _, d: brought.append(d))
        monkeypatch.setattr(pictures, "WAITS", 30.0)
        reading = Thread(
            target=pictures.PicturesInWorker(CommandEngine(Path(), EngineOptions())).send,
            args=(pipe,),
        )
        reading.start()
        writer.write(b"a picture" * 20_000)
    reading.join(60)
    assert brought == [b"a picture" * 20_000]


@pytest.mark.only_linux("pipes in folders")
def test_a_pipe_to_which_nobody_writes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "WAITS", 0.05)
    os.mkfifo(folder / "pipe.png")
    assert_a_picture_is_refused(folder, "pipe.png", "nothing came")


def assert_a_picture_is_refused(folder: Path, name: str, problem: str) -> None:
    image = ("--image", str(folder / name))
    ended = run_here("run", str(folder / "gemma3.gguf"), "-p", "what", *image, *HOST)
    assert_one_line_error(ended)
    assert name in ended.stderr
    assert problem in ended.stderr


def test_a_model_without_its_projector_says_what_is_missing(folder: Path) -> None:
    image = ("--image", str(folder / "a.png"))
    blind = run_here(
        "run", str(folder / "gemma3.gguf"), "-p", "what", *image, "--mmproj", "none", *HOST
    )
    assert_one_line_error(blind)
    assert "--mmproj" in blind.stderr
    assert_a_picture_is_refused(folder, "none.png", "No such file")


def test_a_picture_in_a_chat_stays_in_it(folder: Path) -> None:
    with Terminal("run", str(folder / "gemma3.gguf"), *HOST) as chat:
        chat.expect("> ")
        chat.send(f"/image {folder / 'a.png'}\n")
        chat.expect("60x45 · 20 tokens · 1 view")
        chat.expect("> ")
        chat.send("what\n")
        assert "pictures" in chat.expect("prompt 38")
        chat.expect("> ")
        chat.send("/regen\n")
        chat.expect("prompt 38 (37 kept)")
        chat.expect("> ")
        chat.send("/image\n")
        chat.expect("needs the path")
