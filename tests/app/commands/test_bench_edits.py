"""`cutaway bench --edits`: the plain model and the edited one in turn."""

import json
from pathlib import Path

import pytest

from engine.protocol import Edit
from tests.in_process import run_here
from tests.program import assert_one_line_error

pytestmark = pytest.mark.usefixtures("nothing_left")
HOST = ("--device", "host")


def test_times_with_and_without(tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All edits are made, at different results; ratios are of pairs of turns."""
    made: list[tuple[str, int]] = []
    add = Edit.add

    def noted(site: str, layer: int, *more: object) -> Edit:
        made.append((site, layer))
        return add(site, layer, *more)

    monkeypatch.setattr(Edit, "add", noted)
    words = ("bench", str(tiny_path), *HOST, "-p", "8", "-n", "3", "-r", "2", "--edits", "7")
    ended = run_here(*words, "--json")
    assert (ended.returncode, ended.stderr) == (0, "")
    found = json.loads(ended.stdout)["edits"]
    assert len(set(made)) == found["n_edits"] == 7
    assert (found["n_prompt"], found["n_gen"]) == (8, 3)
    for kind in ("pp", "tg"):
        ratios = found[f"ratios_{kind}"]
        assert len(ratios) == 2
        assert found[f"ratio_{kind}"] == pytest.approx(sum(ratios) / 2)
        assert min(ratios) > 0
    shown = run_here(*words)
    assert shown.returncode == 0, shown
    assert shown.stdout.count("\n") == 5
    assert "7 edits: median time" in shown.stdout


def test_too_many_are_refused(tiny_path: Path) -> None:
    ended = run_here("bench", str(tiny_path), *HOST, "--edits", "10")
    assert_one_line_error(ended, "--edits", "1 to 9 for 3 layers")
    ended = run_here("bench", str(tiny_path), *HOST, "--edits", "1", "-n", "0")
    assert_one_line_error(ended, "--edits", "-n 2")
