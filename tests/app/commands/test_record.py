"""`cutaway record`: a folder of texts, files in another, and JSON."""

import json
from pathlib import Path

import gguf
import pytest

from tests.in_process import run_here
from tests.program import assert_one_line_error

pytestmark = pytest.mark.usefixtures("nothing_left")
HOST = ("--device", "host", "--ctx", "32")


def test_files_are_written_and_listed(tiny_path: Path, tmp_path: Path) -> None:
    texts, out = tmp_path / "texts", tmp_path / "out"
    texts.mkdir()
    (texts / "a.txt").write_text("The hat on the heath, there and then. " * 8, "utf-8")
    words = ("record", str(tiny_path), str(texts), "--out", str(out), *HOST)
    ended = run_here(*words, "--what", "norms,imatrix", "--json")
    assert ended.returncode == 0, ended
    told = json.loads(ended.stdout)
    assert told["files"] == ["norms.npz", "imatrix.gguf"]
    names = {one.name for one in gguf.GGUFReader(out / "imatrix.gguf").tensors}
    assert "blk.2.ffn_down.weight.in_sum2" in names
    assert_one_line_error(run_here(*words, "--what", "norms"), "--resume")
    again = run_here(*words, "--what", "norms,imatrix", "--resume")
    assert again.returncode == 0, again
    assert "in earlier runs" in again.stdout
    assert_one_line_error(run_here(*words, "--what", "noise"), "--what", "imatrix")
