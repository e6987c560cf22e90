"""`cutaway tune`: what it prints, what it keeps, and that it holds from then on."""

import json
from pathlib import Path

import pytest

from engine.backends.opencl.drivers.device import list_devices
from engine.backends.opencl.tuned import CHOICES
from engine.settings import cache_folder
from tests.in_process import run_here
from tests.program import Terminal, assert_one_line_error, run

pytestmark = [pytest.mark.device, pytest.mark.usefixtures("nothing_left")]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With nothing tuned; kernels are those of other runs."""
    for name in ("programs", "pocl"):
        (cache_folder() / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name).symlink_to(cache_folder() / name)
    monkeypatch.setenv("CUTAWAY_CACHE", str(tmp_path))
    return tmp_path


@pytest.mark.full
def test_for_people(cache: Path) -> None:
    info = next(d for d in list_devices() if d.default)
    ended = run_here("tune", "--family", "rows")
    assert ended.returncode == 0, ended
    *trials, worth, kept = ended.stdout.splitlines()
    names = {"elements"} if info.traits.is_cpu else {"row_team"}
    assert len(trials) == sum(len(CHOICES[name]) - 1 for name in names)
    for line in trials:
        assert line.startswith("rows ")
        assert " GB/s " in line
    assert worth.startswith(f"{info.name}, times as fast as with the default: rows ")
    path = cache / "tuning" / f"{info.tuning}.json"
    assert kept == f"Kept in {path}; delete it to restore the defaults."
    stored = json.loads(path.read_text())
    assert stored["device"] == info.title
    assert stored["values"].keys() == names
    assert stored["gains"].keys() == {"rows"}


@pytest.mark.full
def test_a_family_is_tuned_beside_others_that_were_before(cache: Path) -> None:
    info = next(d for d in list_devices() if d.default)
    path = cache / "tuning" / f"{info.tuning}.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"values": {"chunk": 32}, "gains": {"prefill": 1.5}}))
    ended = run_here("tune", "--family", "rows", "--json")
    assert ended.returncode == 0, ended
    report = json.loads(ended.stdout)
    assert report["path"] == str(path)
    assert report["values"]["chunk"] == 32
    assert report["gains"]["prefill"] == 1.5
    assert {trial["family"] for trial in report["trials"]} == {"rows"}
    assert json.loads(path.read_text())["values"] == report["values"]


@pytest.mark.full
def test_progress_is_shown(cache: Path) -> None:
    with Terminal("tune", "--family", "rows") as terminal:
        terminal.expect(" s left")
        terminal.expect("Kept in ")
        assert terminal.wait() == 0


def test_what_it_refuses(cache: Path) -> None:
    assert_one_line_error(run("tune", "--family", "nope"), "--family", "'nope'", "decode")
    assert_one_line_error(run_here("tune", "--device", "nope:0"), "--device", "'nope:0'")
    missing = str(cache / "missing")
    assert_one_line_error(run_here("tune", "--to", missing), "--to", missing)
