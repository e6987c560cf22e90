"""`cutaway selftest`: what it prints, what it refuses, and a driver that takes its process down."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import pytest

from app.checks import processes
from app.cli import main
from app.terminal.child import Child, child
from engine.backends.opencl.drivers.device import list_devices
from engine.selftest.table import chosen
from tests.in_process import run_here
from tests.program import Terminal, assert_one_line_error, run

pytestmark = [pytest.mark.device, pytest.mark.usefixtures("nothing_left")]
NEG = "^neg (view |permuted )?F32 .(128|5),"
BROKEN = "neg view F32 [128,2,2,2]"


@pytest.fixture(scope="module")
def device() -> str:
    return next(d.name for d in list_devices() if d.default)


@pytest.fixture
def crashing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program whose process may end early takes the place of the self test's."""
    monkeypatch.setattr(processes, "child", partial(standing_for, "tests.app.commands.crashing"))


def standing_for(
    module: str, _: str, *args: str, timeout: float, stop: Callable[[], bool]
) -> AbstractContextManager[Child]:
    return child(module, *args, timeout=timeout, stop=stop)


def test_for_people(device: str) -> None:
    ended = run("selftest", "--device", device, "--op", NEG)
    assert ended.returncode == 0, ended
    head, titles, neg, total = ended.stdout.splitlines()
    assert head.startswith(device)
    assert titles.split() == ["op", "passed", "failed", "unsupported", "worst", "error", "allowed"]
    assert neg.split()[:4] == ["neg", "6", "0", "0"]
    assert total.startswith("6 passed, 0 failed, 0 unsupported in ")
    assert ended.stderr == ""


def test_a_report(device: str) -> None:
    ended = run_here("selftest", "--op", NEG, "--quick", "--json")
    assert ended.returncode == 0, ended
    report = json.loads(ended.stdout)
    assert report["device"]["id"] == device
    assert report["device"]["driver"]
    assert (report["pattern"], report["quick"]) == (NEG, True)
    (only,) = report["results"]
    assert (only["op"], only["label"], only["status"]) == ("neg", "F32 [5,7,11,13]", "passed")
    assert 0 <= only["error"] <= only["most"] == 1e-7


@pytest.mark.full
def test_speeds(device: str) -> None:
    pattern = "^(add F32 .(10|4096),|matmul Q4_1 tiled .4096,4096)"
    lines = run_here("selftest", "--device", device, "--op", pattern, "--perf").stdout.splitlines()
    speeds = [line for line in lines if "GB/s" in line]
    assert len(speeds) == len(chosen(pattern, speed=True)) == 3
    rates: list[float] = []
    for line in speeds:
        *_, bytes_rate, unit, flops_rate, other = line.split()
        assert (unit, other) == ("GB/s", "GFLOP/s")
        rates += [float(bytes_rate), float(flops_rate)]
    # The sum of ten numbers is told as 0.0 where the machine is busy.
    assert min(rates) >= 0
    assert max(rates) > 0


@pytest.mark.full
def test_progress_is_shown(device: str) -> None:
    with Terminal("selftest", "--device", device, "--op", "^(tanh|div|rope|cast)") as terminal:
        terminal.expect(" s left")
        terminal.expect(" passed, 0 failed")
        assert terminal.wait() == 0


@pytest.mark.parametrize("pattern", ["(", "no such operation"])
def test_patterns_without_a_case(pattern: str, device: str) -> None:
    ended = run_here("selftest", "--device", device, "--op", pattern)
    assert_one_line_error(ended, "--op", pattern)


def test_unknown_device(device: str) -> None:
    assert_one_line_error(run_here("selftest", "--device", "none:7"), "--device", "none:7", device)


@pytest.mark.usefixtures("crashing")
def test_a_crash_fails_its_case_only(
    device: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRASHES_AT", BROKEN)
    assert main(["selftest", "--device", device, "--op", NEG]) == 1
    out = capsys.readouterr().out
    assert f"FAILED {BROKEN}: its process ended by SIGABRT" in out
    assert "5 passed, 1 failed, 0 unsupported" in out
    assert main(["selftest", "--device", device, "--op", NEG, "--json"]) == 1
    results = json.loads(capsys.readouterr().out)["results"]
    assert sorted(one["label"] for one in results) == sorted(case.label for case in chosen(NEG))
    assert [one["status"] for one in results].count("failed") == 1


@pytest.mark.full  # waits ten seconds
@pytest.mark.usefixtures("crashing")
def test_a_case_that_never_ends(
    device: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANGS_AT", BROKEN)
    monkeypatch.setattr(processes, "SILENCE", 10.0)
    assert main(["selftest", "--device", device, "--op", BROKEN.replace("[", ".")[:-1]]) == 1
    out = capsys.readouterr().out
    assert f"FAILED {BROKEN}: no answer within 10 s" in out


def test_a_process_that_does_not_start(
    device: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "child", partial(standing_for, "engine"))
    assert main(["selftest", "--device", device, "--op", NEG]) == 1
    assert f"the self test of {device}: its process ended with status 1" in capfd.readouterr().err
