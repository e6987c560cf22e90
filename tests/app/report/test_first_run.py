"""The first run goes on after whatever ends one of its steps, and all that it found is in files."""

import json
import os
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from app.report import first_run
from app.report.first_run import FIRST, OTHERS, STEPS, FirstRun, Keep, Kit, Step
from app.terminal.child import Child, child
from engine.backends.opencl.drivers.device import list_devices
from engine.backends.opencl.drivers.find import ONLY
from engine.errors import Cancelled
from engine.selftest.table import chosen as chosen_cases
from engine.selftest.table import few_of
from tests.in_process import run_here

pytestmark = [pytest.mark.device, pytest.mark.usefixtures("nothing_left", "kept_engines")]
DEVICE = list_devices()[0]


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FirstRun]:
    """A run of some steps on the first device, which is known already."""

    def taken(folder: Path, *steps: Step | str, minutes: float = 10.0) -> FirstRun:
        by_name = {step.name: step for step in STEPS}
        wanted = tuple(by_name[one] if isinstance(one, str) else one for one in steps)
        monkeypatch.setattr(first_run, "STEPS", (Step("known", "", 1, known), *wanted))
        return first_run.first_run(folder, "", minutes, lambda *_: None, lambda: False)

    return taken


def known(kit: Kit, keep: Keep) -> None:
    kit.row = DEVICE.row()


def works(kit: Kit, keep: Keep) -> None:
    keep({"it": "works"})


LAST = Step("last", "that the run goes on", 10, works)


def standing_for(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """Steps start this module in place of the engine's."""

    def started(
        _: str, *args: str, timeout: float, stop: Callable[[], bool]
    ) -> AbstractContextManager[Child]:
        return child(module, *args, timeout=timeout, stop=stop)

    monkeypatch.setattr(first_run, "child", started)


def records(folder: Path, name: str) -> list[Any]:
    (path,) = folder.glob(f"[0-9][0-9]-{name}.jsonl")
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_without_a_driver_every_step_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ONLY, "none.so")  # read by the processes that load drivers
    done = run_here("report", "--first-run", "--to", str(tmp_path / "run"))
    assert done.returncode == 1
    assert done.stdout.count("no OpenCL device was found") == len(STEPS)
    summary = json.loads((tmp_path / "run" / "summary.json").read_bytes())
    assert [step["name"] for step in summary["steps"]] == [step.name for step in STEPS]
    assert len(list((tmp_path / "run").glob("*.jsonl"))) == len(STEPS)
    assert records(tmp_path / "run", "drivers")
    assert not list((tmp_path / "run").glob("**/*.gguf"))


def test_trials_that_lie_hang_or_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: Callable[..., FirstRun]
) -> None:
    standing_for(monkeypatch, "tests.app.report.lying")
    run = chosen(tmp_path, "trials", LAST)
    assert [step.problem for step in run.steps] == ["", "", ""]
    assert {one["way"]: one["refused"] for one in records(tmp_path, "trials")} == {
        "NVIDIA": "gives wrong sums (4 of 1024)",
        "AMD": "no answer within 2 s",
        "RDNA3": "its process ended by SIGABRT",
        "INTEL": "",
    }


def test_a_program_that_does_not_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: Callable[..., FirstRun]
) -> None:
    """The next one is built, and its binary kept."""
    standing_for(monkeypatch, "tests.app.report.refusing")
    run = chosen(tmp_path, "programs", LAST)
    assert [step.problem for step in run.steps] == ["", "", ""]
    rows = {one["family"]: one for one in records(tmp_path, "programs")}
    assert "no such register" in rows["rope_store"]["problem"]
    for family in ("rows", "norm_chain"):
        path = tmp_path / "programs" / rows[family]["file"]
        assert path.stat().st_size == rows[family]["nbytes"] > 0
    assert not list(tmp_path.glob("**/*.gguf"))


def test_a_compiler_that_takes_its_process_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: Callable[..., FirstRun]
) -> None:
    """What was built before is kept."""
    standing_for(monkeypatch, "tests.app.report.refusing")
    monkeypatch.setenv("CRASHES", "1")
    run = chosen(tmp_path, "programs", LAST)
    assert "SIGABRT" in run.steps[1].problem
    assert [one["family"] for one in records(tmp_path, "programs")] == ["rows"]
    assert records(tmp_path, "last") == [{"it": "works"}]


def test_what_hangs_ends_at_its_limit(tmp_path: Path, chosen: Callable[..., FirstRun]) -> None:
    def hangs(kit: Kit, keep: Keep) -> None:
        keep({"it": "began"})
        while not kit.stop():
            pass
        raise Cancelled("what hangs")

    run = chosen(tmp_path, Step("hangs", "", 1, hangs), LAST, minutes=0.02)
    assert run.steps[1].problem == f"ended after its {run.steps[1].limit:g} s"
    assert run.steps[1].limit < 0.3
    assert records(tmp_path, "hangs") == [{"it": "began"}]
    assert records(tmp_path, "last") == [{"it": "works"}]
    assert not run.stopped


def test_a_disk_that_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: Callable[..., FirstRun]
) -> None:
    """Of a step's records, and of the summary: the terminal has it all the same."""
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("needs /dev/full")
    (tmp_path / "02-fills.jsonl").symlink_to(full)
    monkeypatch.setattr(first_run, "write_atomically", lambda *_: full.write_bytes(b"x"))
    run = chosen(tmp_path, Step("fills", "", 1, works), LAST)
    assert "No space left" in run.steps[1].problem
    assert records(tmp_path, "last") == [{"it": "works"}]
    assert "No space left" in run.unwritten
    assert "No space left" in list(first_run.lines(run))[-1]


def test_a_mistake_of_ours(tmp_path: Path, chosen: Callable[..., FirstRun]) -> None:
    def wrong(kit: Kit, keep: Keep) -> None:
        keep({}["nothing"])

    run = chosen(tmp_path, Step("wrong", "", 1, wrong), LAST)
    assert run.steps[1].problem == "KeyError: 'nothing'"
    assert run.steps[2].records == 1


def test_launches_and_copies_are_timed(tmp_path: Path, chosen: Callable[..., FirstRun]) -> None:
    run = chosen(tmp_path, "costs")
    assert run.steps[1].problem == ""
    costs = {one["what"]: one for one in records(tmp_path, "costs")}
    assert {f"launch, {q} queue, {e}" for q in ("plain", "profiling") for e in EVENTS} <= set(costs)
    assert all(one["seconds"] > 0 for one in costs.values())
    assert {"read, pageable", "read, pinned", "write, pageable", "write, pinned"} <= set(costs)


EVENTS = ("an event each", "no event")


def test_what_a_step_leaves_of_its_time_is_for_those_behind_it(
    tmp_path: Path, chosen: Callable[..., FirstRun]
) -> None:
    run = chosen(tmp_path, Step("short", "", 9, works), LAST, minutes=1.0)
    assert run.steps[2].limit > 30.0  # its own share of 20
    assert not any(step.problem for step in run.steps)


def test_operations_are_tried_first_or_behind() -> None:
    """Each is tried once."""
    first, others = chosen_cases(FIRST, True), chosen_cases(OTHERS, True)
    everything = chosen_cases(quick=True)
    assert len(first) + len(others) == len(everything)
    few = few_of(everything, 2)
    assert {case.op for case in few} == {case.op for case in everything}
    assert max(Counter(case.op for case in few).values()) == 2
    products = [case.name for case in everything if case.op == "matmul"]
    taken = [case.name for case in few if case.op == "matmul"]
    assert taken[0] == products[0]
    assert 0.4 < products.index(taken[1]) / len(products) < 0.6


@pytest.mark.full
def test_whole_in_the_manner_of_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In ten minutes on two cores; here there is time for a machine that has other work."""
    monkeypatch.setenv("CUTAWAY_LANES", "1")
    device = next(d.name for d in list_devices() if d.name.startswith("pocl"))
    run = first_run.first_run(tmp_path, device, 30.0, lambda *_: None, lambda: False)
    assert {step.name: step.problem for step in run.steps} == {step.name: "" for step in STEPS}
    assert all(step.records for step in run.steps)
    for name in ("self-test", "all-operations"):
        assert {one["status"] for one in records(tmp_path, name)} <= {"passed", "unsupported"}
    (compared,) = records(tmp_path, "two-blocks")
    assert compared["first"] is None
    assert os.listdir(tmp_path / "tuning")
