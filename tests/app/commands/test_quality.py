"""`cutaway quality`: what it prints, in JSON and for people, and what it refuses."""

import json
from pathlib import Path

import gguf
import pytest

from tests.goldens.tiny import write_tiny
from tests.in_process import run_here
from tests.program import assert_one_line_error

pytestmark = pytest.mark.usefixtures("nothing_left")
HOST = ("--device", "host", "--ctx", "32")
TEXT = "The hat on the heath, there and then, is one of these things. " * 4
Q8, Q4 = gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q4_0


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """A quantised file, its base and a text."""
    (tmp_path / "text.txt").write_text(TEXT, "utf-8")
    kinds = {"blk.2.ffn_up": Q4, "blk.2": Q8}
    files = [
        write_tiny(tmp_path / "q.gguf", "llama", kinds),
        write_tiny(tmp_path / "f16.gguf", "llama"),
    ]
    return [str(files[0]), "--base", str(files[1]), "--text", str(tmp_path / "text.txt"), *HOST]


def test_estimates_drift_and_the_guilty_tensor(words: list[str]) -> None:
    ended = run_here("quality", *words, "--chunks", "2", "--drift", "--guilty", "--json")
    assert ended.returncode == 0, ended
    told = json.loads(ended.stdout)
    assert told["estimates"]["n"] == 2 * 15
    assert told["estimates"]["kld"]["value"] > 0
    assert [one["layer"] for one in told["drift"]] == [0, 1, 2]
    assert told["drift"][0]["nmse"] == 0 < told["drift"][2]["nmse"]
    assert told["tensors"][0]["name"] == "blk.2.ffn_up.weight"
    assert told["tensors"][0]["type"] == "Q4_0"
    shown = run_here("quality", *words, "--chunks", "2", "--in-turn")
    assert shown.returncode == 0, shown
    title = shown.stdout.splitlines()[0]
    assert title == "q against f16, 2 chunks of 32 tokens on host, one model at a time"
    kld = next(line for line in shown.stdout.splitlines() if line.startswith("KL divergence"))
    assert float(kld.split()[2]) == pytest.approx(told["estimates"]["kld"]["value"], abs=1e-4)


def test_what_a_tensor_would_lose(words: list[str]) -> None:
    base, text = words[2], words[4]
    given = ("quality", base, "--text", text, *HOST, "--chunks", "1")
    ended = run_here(*given, "--what-if", r"blk\.[01]\.ffn_up\.weight=Q4_0", "--json")
    assert ended.returncode == 0, ended
    told = json.loads(ended.stdout)
    assert {one["name"] for one in told["tensors"]} == {
        "blk.0.ffn_up.weight",
        "blk.1.ffn_up.weight",
    }
    assert told["estimates"]["kld"]["value"] > 0
    shown = run_here(*given, "--what-if", r"blk\.0\.ffn_up\.weight=Q4_0")
    assert ", 1 tensor swapped, 1 chunk of 32 tokens on host\n" in shown.stdout
    ended = run_here(*given, "--what-if", r"blk\.0\.ffn_up\.weight=Q3_K")
    assert_one_line_error(ended, "writing Q3_K", "Q4_K")


def test_without_anything_to_compare_it_says_what_is_missing(words: list[str]) -> None:
    ended = run_here("quality", words[0], *words[3:])
    assert_one_line_error(ended, "--base", "--what-if")
    ended = run_here("quality", *words[:4], "nowhere.txt", *HOST)
    assert_one_line_error(ended, "--text", "nowhere.txt")
