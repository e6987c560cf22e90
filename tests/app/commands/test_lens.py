"""`cutaway lens`: a row a layer, as text and as JSON."""

import json
from math import exp
from pathlib import Path

import numpy as np
import pytest

from app.cli import main
from app.commands.lens import percent
from engine.inside.token.library import look
from engine.runner import load
from engine.tokenizer import Tokenizer
from tests.engine.runner.pictures.seeing import noise
from tests.goldens.vision.families import write_pair
from tests.in_process import run_here
from tests.program import assert_one_line_error, run

pytestmark = pytest.mark.usefixtures("nothing_left")
HOST = ("--device", "host", "--ctx", "64")
TEXT = "the hat on"


def ask(*words: str) -> dict:
    ended = run_here("lens", *words, *HOST, "--json")
    assert ended.returncode == 0, ended
    found: dict = json.loads(ended.stdout)
    return found


def test_json_is_what_the_library_finds(tiny_path: Path) -> None:
    told = ask(str(tiny_path), "-p", TEXT, "--at", "2", "--top-k", "3")
    with load(tiny_path, device="host", ctx=64) as model:
        found = look(model, TEXT, at=2, lens=True, top_k=3)
        tokenizer: Tokenizer = model.loaded.tokenizer
        ids = tokenizer.encode(TEXT)
        again = look(model, TEXT, lens=True, wanted=5)
    assert told["at"] == 2
    assert told["context"] == [tokenizer.shown(i) for i in ids[:2]]
    assert told["token"] == {"id": ids[2], "text": tokenizer.shown(ids[2])}
    assert found.lens is not None
    assert again.lens is not None
    assert again.lens.wanted == 5
    rows = told["layers"]
    assert [row["layer"] for row in rows] == [0, 1, 2]
    assert [row["rank"] for row in rows] == np.frombuffer(found.lens.rank, "<i4").tolist()
    logp = np.frombuffer(found.lens.logp, "<f4").reshape(3, 3)
    for row, exact in zip(rows, logp, strict=True):
        assert [one["logprob"] for one in row["top"]] == pytest.approx(exact.tolist(), abs=1e-5)
        assert [one["text"] for one in row["top"]] == [
            tokenizer.shown(one["id"]) for one in row["top"]
        ]
        places = {one["id"]: i for i, one in enumerate(row["top"], 1)}
        assert places.get(ids[2], row["rank"]) == row["rank"]


def test_for_people_a_row_a_layer(tiny_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = ask(str(tiny_path), "-p", TEXT)
    assert main(["lens", str(tiny_path), "-p", TEXT, *HOST]) == 0
    head, titles, *rows, last = capsys.readouterr().out.splitlines()
    assert head.startswith(f"token {told['at']}, after ")
    assert titles.split() == ["layer", "rank", "probability", "entropy", "likeliest"]
    assert len(rows) == 3
    for line, row in zip(rows, told["layers"], strict=True):
        layer, rank, chance, entropy = line.split()[:4]
        assert (layer, rank) == (str(row["layer"]), f"{row['rank']:,}")
        assert (chance, entropy) == (percent(exp(row["logprob"])), f"{row['entropy']:.2f}")
    leads = [row["rank"] == 1 for row in told["layers"]]
    first = next(i for i in range(3) if all(leads[i:]))  # the likeliest leads in the end
    assert last.endswith(f"is on top from layer {first} on")


def test_what_can_come_is_never_nothing() -> None:
    assert [percent(p) for p in (0.5, 1e-4, 9e-5, 0.0)] == ["50.00%", "0.01%", "<0.01%", "0.00%"]


def test_a_chat_with_a_picture(tmp_path: Path) -> None:
    from PIL import Image

    path = write_pair(tmp_path, "gemma3")[0]
    picture = tmp_path / "a.png"
    Image.fromarray(noise(1)).save(picture)
    told = ask(str(path), "-p", "what is it", "--image", str(picture))
    assert told["at"] == len(told["context"]) > 16


def test_what_cannot_be(tiny_path: Path) -> None:
    refused = run("lens", str(tiny_path), "-p", TEXT, "--at", "99", *HOST)
    assert_one_line_error(refused, "at: 99", "from 1 to")
    assert run_here("lens", str(tiny_path)).returncode == 2
    blind = run_here("lens", str(tiny_path), "-p", TEXT, "--image", "none.png", *HOST)
    assert_one_line_error(blind, "reads text only")
