"""A report is gathered from real devices, and from drivers that die, hang or are told to stop."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from app.checks import processes
from app.report import gather, speeds
from app.report.contents import Report, ReportWanted
from app.report.document import markdown, summary
from app.report.sizes import SHAPES, Shape
from app.terminal.child import Child, child
from engine.backends.opencl.drivers.device import list_devices
from engine.errors import BadSetting
from engine.protocol import BenchTest, SelfTest
from engine.worker import Worker
from tests.in_process import run_here
from tests.program import assert_one_line_error, run

pytestmark = [pytest.mark.device, pytest.mark.usefixtures("nothing_left", "kept_engines")]
BROKEN = "neg view F32 [128,2,2,2]"
TESTS = (BenchTest(n_prompt=16), BenchTest(n_gen=2))
DEVICES = [d.name for d in list_devices()]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tiny model, few tests and few cases."""
    shape = Shape(SHAPES[1].name, "nothing", 256, 512, 1, 4, 2, 320, SHAPES[1].kind)
    monkeypatch.setattr(speeds, "SHAPES", (shape,))
    monkeypatch.setattr(speeds, "TESTS", TESTS)
    monkeypatch.setattr(speeds, "PROFILED", {1: 1})
    everything = gather.cases

    def few(wanted: SelfTest, stop: Callable[[], bool]) -> Iterator[object]:
        return everything(SelfTest(wanted.device, "^neg ", shares=1), stop)

    monkeypatch.setattr(gather, "cases", few)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is examined elsewhere takes no time here."""
    monkeypatch.setattr(gather, "check_drivers", lambda _: iter(()))
    monkeypatch.setattr(gather, "properties", lambda *_: (None, None))


def gathered(*devices: str, stop: Callable[[], bool] = lambda: False) -> Report:
    return gather.gather(ReportWanted(devices), lambda *_: None, stop)


@pytest.mark.parametrize(
    "device", [*DEVICES[:1], *(pytest.param(d, marks=pytest.mark.full) for d in DEVICES[1:])]
)
def test_a_device(device: str) -> None:
    said: list[tuple[str, float]] = []
    report = gather.gather(ReportWanted((device,)), lambda *a: said.append(a[:2]), lambda: False)
    (findings,) = report.devices
    assert (report.problems, findings.problems, report.stopped) == ({}, {}, False)
    assert findings.row.id == device
    assert findings.properties is not None
    assert findings.properties.values["NAME"]
    assert findings.properties.values["MAX_COMPUTE_UNITS"] == findings.row.compute_units
    assert findings.roof is not None
    assert findings.roof.bytes_per_s > 1e8
    assert {case.status for case in findings.cases} == {"passed"}
    (row,) = findings.speeds
    assert row.problem == ""
    assert [len(row.samples_ts[test.name]) for test in TESTS] == [3, 3]
    assert row.profiles[0]["test"] == "tg1"
    assert len(said) > 10
    assert all(a <= b for (_, a), (_, b) in zip(said, said[1:], strict=False))
    assert "computes correctly" in summary(report)[0]
    assert len(markdown(report)) < 200_000


@pytest.mark.usefixtures("known")
def test_a_driver_that_takes_its_process_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "child", partial(_standing_for, "tests.app.commands.crashing"))
    monkeypatch.setenv("CRASHES_AT", BROKEN)
    monkeypatch.setattr(speeds, "Worker", partial(Worker, "tests.app.report.dying"))
    monkeypatch.setattr(speeds, "SILENCE", 30.0)
    (findings,) = (report := gathered(DEVICES[0])).devices
    failed = [case for case in findings.cases if case.status == "failed"]
    assert [case.label for case in failed] == [BROKEN.removeprefix("neg ")]
    assert "SIGABRT" in failed[0].problem
    assert "SIGSEGV" in findings.speeds[0].problem
    assert "computes WRONGLY: 1 of" in summary(report)[0]


@pytest.mark.usefixtures("known")
def test_a_driver_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANGS", "1")
    monkeypatch.setattr(speeds, "SILENCE", 6.0)
    monkeypatch.setattr(speeds, "Worker", partial(Worker, "tests.app.report.dying"))
    before = set(speeds.folder().glob("report-*"))
    (findings,) = gathered(DEVICES[0]).devices
    assert "no answer within 6 s" in findings.speeds[0].problem
    assert set(speeds.folder().glob("report-*")) == before


@pytest.mark.usefixtures("known")
def test_stopped_while_a_driver_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """SILENCE is minutes: only the stop ends it."""
    monkeypatch.setenv("HANGS", "1")
    monkeypatch.setattr(speeds, "Worker", partial(Worker, "tests.app.report.dying"))
    at: list[str] = []
    wanted = ReportWanted((DEVICES[0],))
    report = gather.gather(wanted, lambda w, *_: at.append(w), lambda: "loading" in at[-1])
    assert report.stopped
    assert report.devices[0].cases
    assert "Stopped early" in summary(report)[-1]


@pytest.mark.usefixtures("known")
def test_stopped_in_the_self_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "child", partial(_standing_for, "tests.app.commands.crashing"))
    monkeypatch.setenv("HANGS_AT", BROKEN)
    at: list[str] = []
    wanted = ReportWanted((DEVICES[0],))
    report = gather.gather(wanted, lambda w, *_: at.append(w), lambda: "case" in at[-1])
    assert report.stopped
    assert report.devices[0].speeds == []


@pytest.mark.usefixtures("known")
def test_a_device_that_is_not_there() -> None:
    with pytest.raises(BadSetting, match="nope:0"):
        gathered("nope:0")


@pytest.mark.usefixtures("known")
def test_no_room_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speeds, "ROOM", 1 << 60)
    (findings,) = gathered(DEVICES[0]).devices
    assert "MiB of disk" in findings.speeds[0].problem


def test_what_the_command_refuses(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone" / "a.md")
    assert_one_line_error(run_here("report", "--to", gone), "--to", gone)
    assert_one_line_error(run("report", "--device", "nope:0"), "--device", "nope:0")


def _standing_for(
    module: str, _: str, *args: str, timeout: float, stop: Callable[[], bool]
) -> AbstractContextManager[Child]:
    return child(module, *args, timeout=timeout, stop=stop)
