"""`cutaway patch`: what it prints, saves and refuses."""

import json
from pathlib import Path

import numpy as np
import pytest

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
