"""Everything that goes into a report, step by step; what goes wrong in one becomes part of it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from time import monotonic

import msgspec

from app.checks.cases import cases
from app.checks.drivers import check_drivers
from app.checks.trials import trials
from app.report.contents import DeviceFindings, Report, ReportWanted
from app.report.machine import machine_facts, program_facts
from app.report.speeds import Tell, ask, measure
from app.terminal.child import child, never
from engine.errors import BadSetting, Cancelled, CutawayError, DeviceError
from engine.protocol import (
    DeviceProperties,
    DeviceRoof,
    DeviceRow,
    ListDevices,
    SelfTest,
    Tune,
    TuneResult,
)
from engine.worker import Worker

SILENCE = 120.0  # seconds; building two kernels and reading 320 MiB take less


def properties(
    device: str, stop: Callable[[], bool] = never
) -> tuple[DeviceProperties, DeviceRoof | None]:
    """Both, or what it says alone where nothing can be measured.

    Raises `Cancelled`, `DeviceError`.
    """
    module = "engine.backends.opencl.properties"
    with child(module, device, timeout=SILENCE, stop=stop) as process:
        lines = list(process.lines())
        problem = process.problem()
    if not lines:
        raise DeviceError(device, problem or "no message")
    roof = msgspec.json.decode(lines[1], type=DeviceRoof) if len(lines) > 1 else None
    return msgspec.json.decode(lines[0], type=DeviceProperties), roof


Stop = Callable[[], bool]


def gather(wanted: ReportWanted, tell: Tell, stop: Stop) -> Report:
    """Ask, check and measure. `tell` hears how far it is, in parts of 1.

    Once `stop` says so it ends within a second, with what there is. Raises BadSetting for a device
    that is not there.
    """
    report = Report(
        when=datetime.now().strftime("%Y-%m-%d %H:%M"),
        program=program_facts(),
        machine=machine_facts(),
        wanted=wanted,
    )
    try:
        tell("devices", 0.0, 1.0)
        with _step("list of devices", report.problems), Worker() as worker:
            request = ListDevices(worker.new_id())
            report.listed = ask(worker, request, "(any)", stop).devices
        chosen = _chosen(report.listed, wanted.devices)
        tell("drivers", 0.02, 1.0)
        with _step("drivers", report.problems):
            for driver in check_drivers(stop):
                report.drivers.append(driver)
        report.devices = [DeviceFindings(row) for row in chosen]
        for i, findings in enumerate(report.devices):

            def told(what: str, done: float, i: int = i, name: str = findings.row.id) -> None:
                tell(f"{name}: {what}", 0.05 + 0.95 * (i + done) / len(chosen), 1.0)

            _examine(findings, wanted, told, stop)
    except Cancelled:
        report.stopped = True
    return report


def _chosen(rows: Sequence[DeviceRow], names: Sequence[str]) -> list[DeviceRow]:
    """Return the named devices, or the best one of each processor."""
    by_name = {row.id: row for row in rows}
    for name in names:
        if name not in by_name:
            there = ", ".join(by_name) or "none: run `cutaway doctor`"
            raise BadSetting("--device", name, f"an OpenCL device; there is {there}")
    return [by_name[name] for name in names] or [row for row in rows if row.is_default]


def _examine(
    findings: DeviceFindings, wanted: ReportWanted, told: Callable[[str, float], None], stop: Stop
) -> None:
    """All of one device, the most telling first: a driver may not live to the end."""
    device, problems, seconds = findings.row.id, findings.problems, findings.seconds
    told("properties", 0.0)
    with _step("properties", problems, seconds):
        findings.properties, findings.roof = properties(device, stop)
    with _step("self test", problems, seconds):
        asked = SelfTest(device, quick=not wanted.full, shares=2)
        for done, of, result in cases(asked, stop):
            told(f"self test, case {done} of {of}", 0.05 + 0.35 * done / max(of, 1))
            if result.status != "started":
                findings.cases.append(result)
    if wanted.tune:
        with _step("tuning", problems, seconds):
            for total, trial in trials(Tune(device), stop):
                if isinstance(trial, TuneResult):
                    findings.tuned = trial
                    continue
                findings.trials.append(trial)
                told(f"tuning, trial {len(findings.trials)} of {total}", 0.4)
    with _step("speed", problems, seconds):
        measure(device, findings.speeds, lambda what, n, of: told(what, 0.45 + 0.55 * n / of), stop)


@contextmanager
def _step(
    name: str, problems: dict[str, str], seconds: dict[str, float] | None = None
) -> Iterator[None]:
    """Record the error and the duration of a step under its name."""
    start = monotonic()
    try:
        yield
    except Cancelled:
        raise
    except CutawayError as error:
        problems[name] = str(error)
    finally:
        if seconds is not None:
            seconds[name] = round(monotonic() - start, 1)
