"""`cutaway embed`: a row a text for people, all numbers as JSON and in a file."""

import json
from pathlib import Path

import numpy as np
import pytest

from app.cli import main
from engine.runner import load
from tests.goldens.tiny import write_tiny
from tests.in_process import run_here
from tests.program import assert_one_line_error, run

pytestmark = pytest.mark.usefixtures("nothing_left")
HOST = ("--device", "host", "--ctx", "64")
TEXTS = ["the hat on", "on the hat", "and"]


def test_lines_are_texts_and_json_has_all_numbers(tiny_path: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.npy"
    lines = "\n\n".join(TEXTS) + "\n"
    ended = run("embed", str(tiny_path), *HOST, "--json", "--out", str(out), given=lines)
    assert ended.returncode == 0, ended
    told = json.loads(ended.stdout)
    with load(tiny_path, device="host", ctx=64) as model:
        wanted = model.embed(TEXTS)
    assert [one["text"] for one in told["embeddings"]] == TEXTS
    assert told["width"] == wanted.shape[1]
    np.testing.assert_allclose([one["embedding"] for one in told["embeddings"]], wanted, atol=1e-6)
    np.testing.assert_allclose(np.load(out), wanted, atol=1e-6)


def test_people_see_how_near_texts_are(tiny_path: Path, capsys: pytest.CaptureFixture) -> None:
    words = ("--text", TEXTS[0], "--text", "\x1b[31m", "--text", TEXTS[0])
    assert main(["embed", str(tiny_path), *words, *HOST]) == 0
    title, first, second, again = capsys.readouterr().out.splitlines()
    assert "64 numbers" in title
    assert "\x1b" not in second
    assert first == again
    assert " 1.000 " in first


def test_a_model_that_embeds_is_not_said_to_continue_text(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = write_tiny(tmp_path / "no-template.gguf", "gemma3")
    assert main(["run", str(path), "-p", "a", "--max-tokens", "1", *HOST]) == 0
    assert "the model continues text" in capsys.readouterr().err
    assert main(["embed", str(path), "--text", "a", *HOST]) == 0
    assert "continues text" not in capsys.readouterr().err


def test_what_cannot_be_embedded_is_said(tiny_path: Path, tmp_path: Path) -> None:
    assert_one_line_error(run_here("embed", str(tiny_path), *HOST, given="\n"), "one text per line")
    wide = run_here("embed", str(tiny_path), *HOST, "--text", "and", "--width", "65")
    assert_one_line_error(wide, "1 to 64")
    out = str(tmp_path / "none" / "x.npy")
    refused = run_here("embed", str(tiny_path), *HOST, "--text", "and", "--out", out)
    assert_one_line_error(refused, "an existing folder")
