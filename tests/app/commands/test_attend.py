"""`cutaway attend`: shares of the context's tokens, and how each layer looks."""

import json
from pathlib import Path

import numpy as np
import pytest

from app.cli import main
from app.commands.attend import LEVELS, chosen
from engine.inside.token.library import look
from engine.runner import load
from tests.engine.runner.pictures.seeing import noise
from tests.goldens.vision.families import write_pair
from tests.in_process import run_here
from tests.program import assert_one_line_error, run

pytestmark = pytest.mark.usefixtures("nothing_left")
HOST = ("--device", "host", "--ctx", "128")
TEXT = "the hat on the mat that is flat, and a cat that sat on that"


def test_json_is_what_the_library_finds(tiny_path: Path) -> None:
    with load(tiny_path, device="host", ctx=128) as model:
        found = look(model, TEXT, attention_layers=[1]).attention
    assert found is not None
    row = np.frombuffer(found.rows[1], "<f4").reshape(found.n_head, -1)
    mean = np.frombuffer(found.mean, "<f4")
    entropy = np.frombuffer(found.entropy, "<f4").reshape(3, -1)
    np.testing.assert_allclose(chosen(found, None, None), mean)
    np.testing.assert_allclose(chosen(found, 1, None), row.mean(0), atol=1e-7)
    chosen_words = ("--layer", "1", "--head", "2", "--json")
    ended = run("attend", str(tiny_path), "-p", TEXT, *chosen_words, *HOST)
    assert ended.returncode == 0, ended
    told = json.loads(ended.stdout)
    np.testing.assert_allclose(told["attention"], row[2], atol=1e-6)
    assert len(told["context"]) == told["at"] == len(mean)
    assert "".join(told["context"]).endswith(TEXT)
    assert [one["layer"] for one in told["layers"]] == [0, 1, 2]
    np.testing.assert_allclose([one["entropy"] for one in told["layers"]], entropy, atol=1e-6)


def test_for_people_a_bar_a_token(tiny_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["attend", str(tiny_path), "-p", TEXT, "--layer", "0", "--head", "1", *HOST]
    assert main([*words, "--rows", "0"]) == 0
    places, layers = capsys.readouterr().out.split("\n\n")
    with load(tiny_path, device="host", ctx=128) as model:
        found = look(model, TEXT, attention_layers=[0]).attention
    assert found is not None
    shares = np.frombuffer(found.rows[0], "<f4").reshape(found.n_head, -1)[1]
    lines = places.splitlines()[1:]
    assert len(lines) == len(shares)
    for i, (line, share) in enumerate(zip(lines, shares, strict=True)):
        assert line.split()[:2] == [str(i), f"{share:.1%}"]
        assert line.count("█") == round(24 * share / shares.max())
    rows = layers.splitlines()[1:]
    assert [line.split()[0] for line in rows] == ["0", "1", "2"]
    assert all(set(line.split()[-1]) <= set(LEVELS) for line in rows)
    assert all(len(line.split()[-1]) == found.n_head for line in rows)
    assert main([*words, "--rows", "5"]) == 0
    told, _, *few = capsys.readouterr().out.split("\n\n")[0].splitlines()
    assert told == f"  the 5 of {len(shares)} with most attention"
    best = np.sort(np.argsort(-shares, kind="stable")[:5])
    assert [int(line.split()[0]) for line in few] == best.tolist()


def test_a_picture_is_one_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from PIL import Image

    path = write_pair(tmp_path, "gemma3")[0]
    picture = tmp_path / "a.png"
    Image.fromarray(noise(1)).save(picture)
    words = ["attend", str(path), "-p", "what is it", "--image", str(picture), *HOST]
    assert main([*words, "--rows", "0"]) == 0
    lines = capsys.readouterr().out.split("\n\n")[0].splitlines()
    (row,) = (line for line in lines if "picture 1" in line)
    begin, end = row.split()[0].split("–")
    assert int(end) - int(begin) == 15
    assert sum(float(line.split()[1].rstrip("%")) for line in lines[1:]) == pytest.approx(
        100, abs=2
    )


def test_what_cannot_be(tiny_path: Path) -> None:
    for words, message in (
        (("--head", "1"), "--head"),
        (("--layer", "1", "--head", "4"), "0 to 3"),
        (("--layer", "3"), "layers from 0 to 2"),
    ):
        ended = run_here("attend", str(tiny_path), "-p", TEXT, *words, *HOST)
        assert_one_line_error(ended, message)
