"""Everything that goes into a report, step by step; what goes wrong in one becomes part of it.

Facts of the machine and the program come from both without use of a device.
"""

import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib import metadata
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
import psutil

from app.checks.processes import cases, check_drivers, trials
from app.report.contents import DeviceFindings, Report, ReportWanted
from app.report.speeds import ReportProgress, measure, run
from app.terminal.child import child, never
from app.version import commit, version
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
from engine.units import MIB
from engine.worker import Worker

PACKAGES = (
    *("pyopencl", "numpy", "gguf", "intel-opencl-rt", "intel-cmplr-lib-rt"),
    *("pocl-binary-distribution", "PySide6-Essentials"),
)
PREFIXES = ("CUTAWAY_", "POCL_", "OCL_", "CL_", "OPENCL_", "PYOPENCL_")
GPU_MODULES = ("nvidia", "amdgpu", "i915", "xe", "radeon", "nouveau")
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def program_facts() -> dict[str, str]:
    """Versions of the program and of what it stands on."""
    facts = {"cutaway": " ".join(filter(None, (version(), commit())))}
    facts["python"] = f"{platform.python_implementation()} {platform.python_version()}"
    for package in PACKAGES:
        try:
            facts[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return facts


def machine_facts() -> dict[str, Any]:
    """Its system, processor, memory, and the settings that change how fast it is."""
    memory = psutil.virtual_memory()
    return {
        "system": _system(),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _of_cpu("model name") or platform.processor(),
        "cores": psutil.cpu_count(logical=False) or 0,
        "threads": psutil.cpu_count() or 0,
        "usable": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0,
        "memory_mib": memory.total // MIB,
        "free_mib": memory.available // MIB,
        "caches": _caches(),
        "busy_percent": psutil.cpu_percent(interval=0.5),
        "huge_pages": _text("/sys/kernel/mm/transparent_hugepage/enabled"),
        "governor": _text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "virtual": "hypervisor" in _of_cpu("flags").split(),
        "gpu_modules": _modules(),
        "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith(PREFIXES)},
        "flags": _of_cpu("flags") or _of_cpu("Features"),
    }


def _system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return platform.platform()


def _of_cpu(name: str) -> str:
    """A line about the first core, as Linux has it."""
    for line in _text("/proc/cpuinfo").splitlines():
        key, colon, value = line.partition(":")
        if colon and key.strip() == name:
            return value.strip()
    return ""


def _caches() -> dict[str, str]:
    found = {}
    for folder in sorted(CACHES.glob("index*")):
        name = f"L{_text(folder / 'level')} {_text(folder / 'type')}"
        found[name] = f"{_text(folder / 'size')} for cores {_text(folder / 'shared_cpu_list')}"
    return found


def _modules() -> dict[str, str]:
    """The kernel's drivers of graphics cards, with their version where they say one."""
    folders = {name: Path("/sys/module") / name for name in GPU_MODULES}
    return {
        name: _text(folder / "version") or "part of the kernel"
        for name, folder in folders.items()
        if folder.exists()
    }


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text("utf-8", "replace").strip()
    except OSError:
        return ""


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


def gather(wanted: ReportWanted, on_progress: ReportProgress, stop: Stop) -> Report:
    """Ask, check and measure. `on_progress` gets how far it is, in parts of 1.

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
        on_progress("devices", 0.0, 1.0)
        with _step("list of devices", report.problems), Worker() as worker:
            request = ListDevices(worker.new_id())
            report.listed = run(worker, request, "(any)", stop).devices
        chosen = _chosen(report.listed, wanted.devices)
        on_progress("drivers", 0.02, 1.0)
        with _step("drivers", report.problems):
            for driver in check_drivers(stop):
                report.drivers.append(driver)
        report.devices = [DeviceFindings(row) for row in chosen]
        for i, findings in enumerate(report.devices):

            def report_step(
                what: str, done: float, i: int = i, name: str = findings.row.id
            ) -> None:
                on_progress(f"{name}: {what}", 0.05 + 0.95 * (i + done) / len(chosen), 1.0)

            _examine(findings, wanted, report_step, stop)
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
    findings: DeviceFindings,
    wanted: ReportWanted,
    on_progress: Callable[[str, float], None],
    stop: Stop,
) -> None:
    """All of one device, the most important first: a driver may not live to the end."""
    device, problems, seconds = findings.row.id, findings.problems, findings.seconds
    on_progress("properties", 0.0)
    with _step("properties", problems, seconds):
        findings.properties, findings.roof = properties(device, stop)
    with _step("self test", problems, seconds):
        request = SelfTest(device, quick=not wanted.full, shares=2)
        for done, of, result in cases(request, stop):
            on_progress(f"self test, case {done} of {of}", 0.05 + 0.35 * done / max(of, 1))
            if result.status != "started":
                findings.cases.append(result)
    if wanted.tune:
        with _step("tuning", problems, seconds):
            for total, trial in trials(Tune(device), stop):
                if isinstance(trial, TuneResult):
                    findings.tuned = trial
                    continue
                findings.trials.append(trial)
                on_progress(f"tuning, trial {len(findings.trials)} of {total}", 0.4)
    with _step("speed", problems, seconds):
        measure(
            device,
            findings.speeds,
            lambda what, n, of: on_progress(what, 0.45 + 0.55 * n / of),
            stop,
        )


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
