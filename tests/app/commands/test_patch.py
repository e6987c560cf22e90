"""`cutaway patch`: what it prints, saves and refuses."""

import json
from pathlib import Path

import numpy as np
import pytest

from app.terminal.edits import parsed
from engine.laboratory.patch import map_patches
from engine.progress import finished
from engine.protocol import ComparedText, MapPatches
from engine.runner import load
from tests.in_process import run_here
from tests.program import assert_one_line_error

pytestmark = pytest.mark.usefixtures("nothing_left")
HOST = ("--device", "host", "--ctx", "256")
SIDES = ("--clean", "the hat is on", "--corrupt", "the oat is on")


def test_a_map_in_json_npz_and_for_people(tiny_path: Path, tmp_path: Path) -> None:
    out = tmp_path / "map.npz"
    ended = run_here("patch", str(tiny_path), *SIDES, *HOST, "--json", "--out", str(out))
    assert ended.returncode == 0, ended
    told = json.loads(ended.stdout)
    assert "".join(told["tokens"]).endswith("the oat is on")
    assert told["layers"] == [0, 1, 2]
    effect = np.array(told["effect"]["residual"], np.float64)
    assert effect.shape == (3, len(told["tokens"]))
    assert effect[2, -1] == pytest.approx(1, abs=1e-3)
    with np.load(out) as file:
        np.testing.assert_allclose(file["effect_residual"], effect, rtol=1e-6)
    shown = run_here("patch", str(tiny_path), *SIDES, *HOST, "--grid", "heads")
    assert shown.returncode == 0, shown
    assert "largest: layer" in shown.stdout


def test_prompts_with_the_same_answer_are_refused(tiny_path: Path) -> None:
    same = ("--clean", "the hat", "--corrupt", "the hat")
    ended = run_here("patch", str(tiny_path), *same, *HOST)
    assert_one_line_error(ended, "prompts that differ in the answer")


def test_the_messages_before_and_the_beginning_of_an_answer_are_read(tiny_path: Path) -> None:
    before = json.dumps([{"role": "system", "content": "a thing"}])
    chat = ("--chat", "--before", before, "--answer", " the hat")
    ended = run_here("patch", str(tiny_path), *SIDES, *HOST, *chat, "--json")
    assert ended.returncode == 0, ended
    whole = "".join(json.loads(ended.stdout)["tokens"])
    assert "a thing" in whole.partition("the oat is on")[0]
    assert whole.endswith(" the hat")
    ended = run_here("patch", str(tiny_path), *SIDES, *HOST, *chat[1:])
    assert_one_line_error(ended, "--chat")
    ended = run_here("patch", str(tiny_path), *SIDES, *HOST, "--chat", "--before", "[1]")
    assert_one_line_error(ended, "a list of messages")


def test_noise_takes_the_place_of_another_prompt(tiny_path: Path) -> None:
    words = ("patch", str(tiny_path), "--clean", "the hat is on", *HOST)
    noise = ("--noise", "--subject", "hat", "--seeds", "2", "--metric", "kl")
    ended = run_here(*words, *noise, "--json")
    assert ended.returncode == 0, ended
    told = json.loads(ended.stdout)
    assert told["tokens"] == told["source_tokens"]
    assert told["effect"]["residual"][2][-1] == pytest.approx(1, abs=1e-3)
    assert_one_line_error(run_here(*words), "--noise in its place")
    both = run_here(*words, "--corrupt", "the oat is on", "--noise", "2")
    assert_one_line_error(both, "--noise in its place")
    assert_one_line_error(run_here(*words, "--noise", "--subject", "cat"), "a part of the prompt")


def test_a_map_under_an_edit(tiny_path: Path) -> None:
    """Both runs are edited: it is the library's map of edited texts, and not the plain one."""
    words = ("patch", str(tiny_path), *SIDES, *HOST, "--json")
    edit = ("--edit", "feed_forward-1=scale:0.5", "--right", "on", "--wrong", "at")
    plain, edited = (json.loads(run_here(*words, *more).stdout) for more in (edit[2:], edit))
    assert edited["effect"]["residual"][2][-1] == pytest.approx(1, abs=1e-3)
    texts = [ComparedText(prompt=text, edits=list(parsed(edit[1]))) for text in SIDES[1::2]]
    with load(tiny_path, device="host", ctx=256) as model:
        request = MapPatches(0, *texts, "on", "at")
        found = finished(map_patches(model.loaded, model.conversation, request, lambda: False))
    np.testing.assert_allclose(
        np.frombuffer(found.tables[0].values, "<f4"),
        np.ravel(edited["values"]["residual"]),
        rtol=1e-5,
    )
    assert (found.start, found.source) == pytest.approx((edited["start"], edited["source"]))
    assert abs(edited["source"] / plain["source"] - 1) > 0.01
    assert_one_line_error(run_here(*words[:-1], "--edit", "heads-9=scale:0"), "layers 0 to 2")
