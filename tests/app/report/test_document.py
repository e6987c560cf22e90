"""What a report says: to people who have never seen the program, and to programs."""

import re

import msgspec
import pytest

from app.report.contents import DeviceFindings, Report, ReportWanted, SpeedRow
from app.report.document import markdown, summary
from engine.protocol import CaseResult, DeviceProperties, DeviceRoof, DeviceRow, DriverCheck

HOSTILE = "<img src=x> | `rm` ````\n# [a](http://b) \x1b[31m"
ROW = DeviceRow("acme:0", HOSTILE, "Acme", f"Acme CL {HOSTILE}", 8 << 30, 40, True)
PROFILE = {
    "test": "tg1",
    "step_ns": 4_000_000,
    "before_ns": 400_000,
    "kernels_ns": 3_000_000,
    "gaps_ns": 200_000,
    "after_ns": 400_000,
    "costs": [
        {"by": "kernel", "name": "a.b Q4_1", "count": 7, "ns": 2_000_000, "bytes": 9, "flops": 1},
        {"by": "op", "name": "never shown", "count": 7, "ns": 1, "bytes": 9, "flops": 1},
    ],
}


def report(*statuses: str, problem: str = "") -> Report:
    """Of one device, with a case of each status."""
    cases = [CaseResult("add", f"case {i}", s, 2e-3, 1e-7, HOSTILE) for i, s in enumerate(statuses)]
    speeds = [
        SpeedRow("135M Q4_1", 1.5, {"pp512": [90.0, 300.0, 100.0], "tg64": [5.0]}, [PROFILE]),
        SpeedRow("1B Q4_K", problem="no room"),
    ]
    properties = DeviceProperties(
        "acme:0", {"EXTENSIONS": HOSTILE}, "OpenCL 3.0", {"is_cpu": False}, {"panel": 8}, "acme", 32
    )
    findings = DeviceFindings(
        ROW,
        properties,
        DeviceRoof("acme:0", 5e11, 2e13),
        cases,
        speeds=speeds,
        problems={"self test": problem} if problem else {},
    )
    drivers = [DriverCheck("/usr/lib/libacme.so", "acme.icd", problem="" if cases else HOSTILE)]
    machine = {"system": "Linux", "environment": {"CUTAWAY_FUSE": "none"}, "caches": {}}
    return Report(
        "2026-01-02 03:04", {"cutaway": "1"}, machine, ReportWanted(), drivers, [ROW], [findings]
    )


def test_the_summary_says_whether_it_is_right() -> None:
    (broken, says) = summary(report("passed", "passed", "unsupported"))
    assert broken.startswith("The driver of acme.icd does not work")
    assert "computes correctly: 2 checks passed, 1 not supported" in says
    assert "writes tokens per second: 135M Q4_1 5.0" in says
    assert "1B Q4_K: no room" in says
    assert "computes WRONGLY: 1 of 2 checks failed" in summary(report("passed", "failed"))[1]
    assert "was not tested; self test failed: it died" in summary(report(problem="it died"))[1]


def test_what_stands_on_top() -> None:
    text = markdown(report("passed", "failed"))
    head, rest = text.split("## Machine", 1)
    assert "| 1.5 | 100.0 | 5.0 | – |" in head  # medians, and what there is none of
    assert "written by `cutaway report`" in head
    assert "### Self test" in rest
    assert "| add | case 1 | 2.0e-03 | 1e-07 |" in rest
    assert "4.000 ms, 7 launches: host before 10.0%, kernels 75.0%, gaps 5.0%, host after" in rest
    assert "never shown" not in rest.split("<details>")[0]


def test_texts_of_drivers_are_no_markup() -> None:
    text = markdown(report("failed", problem=HOSTILE)).split("<details>")[0]
    assert "\x1b" not in text
    assert not re.search(r"(?<!\\)<img", text)
    assert not re.search(r"(?<!\\)\[a", text)
    assert not re.search(r"^# \\?\[a", text, re.MULTILINE)
    rows = [line for line in text.splitlines() if line.startswith("| acme:0 | ") and "8192" in line]
    assert len(re.findall(r"(?<!\\)\|", rows[0])) == 7


def test_all_of_it_is_there_for_programs() -> None:
    given = report("passed")
    (data,) = re.findall(r"^```json\n(.*?)\n```$", markdown(given), re.DOTALL | re.MULTILINE)
    back = msgspec.json.decode(data, type=Report)
    assert back.devices[0].cases == [
        msgspec.structs.replace(given.devices[0].cases[0], problem=back.devices[0].cases[0].problem)
    ]
    assert back.devices[0].speeds[0].samples_ts == given.devices[0].speeds[0].samples_ts
    assert back.machine["environment"] == {"CUTAWAY_FUSE": "none"}


def test_folders_of_the_machine_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere/ada")
    given = report("passed", problem="cannot read /somewhere/ada/models/x.gguf nor /data/b/y")
    text = markdown(given)
    assert "somewhere" not in text
    assert "/data/b" not in text
    assert "(folder)/x.gguf" in text
