"""A report as one Markdown file: a summary for anybody, details, and everything as JSON."""

import getpass
import os
import platform
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from app.report.contents import DeviceFindings, Report, SpeedRow, plain, table
from app.report.sizes import SHAPES
from app.report.speeds import TESTS
from app.words import UNKNOWN

SHARED = ("/usr", "/lib", "/lib64", "/opt", "/etc", "/bin", "/sbin", "/proc", "/sys", "/dev")
"""Folders that are alike on all machines."""
HOME = "/~"
PATH = re.compile(r"(?<![\w/:.~])(/[^\s/:;,\"'<>|()\[\]]+)((?:/[^\s/:;,\"'<>|()\[\]]*)*)")
SECRET = re.compile(r"(?i)(token|secret|passw|credential|api_?key|auth)")
LEAST = 3  # letters of a name that is worth hiding: shorter ones are parts of words


def scrubber(
    home: str | None = None, user: str | None = None, host: str | None = None
) -> Callable[[Any], Any]:
    """A function that takes these, by default this machine's, out of a text and of all texts in a
    value of lists and mappings.
    """
    home = os.path.expanduser("~") if home is None else home
    names = {_user() if user is None else user: "(user)"}
    names[platform.node() if host is None else host] = "(machine)"
    known = {n: to for n, to in names.items() if len(n) >= LEAST and n not in ("root", "localhost")}

    def text(value: str) -> str:
        if len(home) > 1:
            value = value.replace(home, HOME)
        value = PATH.sub(_shared, value).replace(HOME, "~")
        for name, to in known.items():
            value = re.sub(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", to, value)
        return value

    def scrub(value: Any) -> Any:
        if isinstance(value, str):
            return text(value)
        if isinstance(value, (list, tuple)):
            return [scrub(one) for one in value]
        if isinstance(value, dict):
            return {text(k): _hidden(k, scrub(v)) for k, v in value.items()}
        return value

    return scrub


def _shared(found: re.Match[str]) -> str:
    """A path of our own machine keeps its last part only."""
    whole = found[0]
    if found[1] in SHARED or not found[2]:
        return whole
    return f"(folder)/{Path(whole).name}"


def _hidden(key: str, value: Any) -> Any:
    return "(hidden)" if isinstance(value, str) and value and SECRET.search(key) else value


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a number that has no name
        return ""


INTRODUCTION = """\
Cutaway runs language models from GGUF files on any processor \
that has an OpenCL driver. This report, written by `cutaway report`, describes one machine. \
Attach it to an issue. Paths, names of users and of the machine have been taken out.
"""
TERMS = """\
pp512: tokens per second while a prompt of 512 tokens is read, bound by how fast the device \
computes. tg64: tokens per second while 64 are written one by one, bound by how fast it reads \
memory; tg32 @ d2048: the same after 2048 tokens. Medians of three. The models have random \
weights, so that everybody measures the same. In the self test every operation is computed on the \
device and by plain NumPy, and compared.
"""
ALL = "Everything, as JSON"
MOST_FAILED = 20
MOST_KERNELS = 8


def markdown(report: Report) -> str:
    """All of it, with nothing private in it."""
    scrub = scrubber()
    data = msgspec.convert(scrub(msgspec.to_builtins(report)), Report)
    text = "\n".join(_lines(data))
    everything = msgspec.json.format(msgspec.json.encode(data), indent=1).decode()
    # JSON has its ends of lines escaped: none of its lines can close the fence.
    return (
        f"{text}\n\n<details><summary>{ALL}</summary>\n\n```json\n{everything}\n```\n\n</details>\n"
    )


def summary(report: Report) -> list[str]:
    """A line or two a device: does it work, is it right, how fast is it."""
    lines = [f"{name}: {problem}" for name, problem in report.problems.items()]
    for driver in report.drivers:
        if not driver.works:
            problem = driver.problem or "; ".join(d.problem for d in driver.devices)
            lines.append(f"The driver of {driver.origin} does not work: {problem}")
    if not report.devices:
        lines.append("No OpenCL device was examined: models run in NumPy, slowly.")
    lines += [_verdict(device) for device in report.devices]
    if report.stopped:
        lines.append("Stopped early: the report is incomplete.")
    return lines


def _verdict(device: DeviceFindings) -> str:
    parts = [f"{device.row.id} ({device.row.name})"]
    failed = sum(case.status == "failed" for case in device.cases)
    if not device.cases:
        parts.append("was not tested")
    elif failed:
        parts.append(f"computes WRONGLY: {failed} of {len(device.cases)} checks failed")
    else:
        parts.append(f"computes correctly: {_passed(device)}")
    parts += [f"{step} failed: {problem}" for step, problem in device.problems.items()]
    parts += [f"{row.model}: {row.problem}" for row in device.speeds if row.problem]
    done = [row for row in device.speeds if not row.problem and row.samples_ts]
    if done:
        speeds = ", ".join(f"{row.model} {_speed(row, TESTS[1].name)}" for row in done)
        parts.append(f"writes tokens per second: {speeds}")
    return "; ".join(parts)


def _passed(device: DeviceFindings) -> str:
    passed = sum(case.status == "passed" for case in device.cases)
    rest = sum(case.status == "unsupported" for case in device.cases)
    return f"{passed} checks passed" + (f", {rest} not supported" if rest else "")


def _lines(report: Report) -> Iterator[str]:
    names = ", ".join(device.row.name for device in report.devices) or "no device"
    yield from (f"# Cutaway on {plain(names)}", "", INTRODUCTION, "## Summary", "")
    yield from (f"- {plain(line)}" for line in summary(report))
    yield ""
    yield from _speeds(report.devices)
    yield from ("", TERMS, "## Machine", "")
    yield from _facts({"Date": report.when, **report.program})
    yield ""
    yield from _facts({k: v for k, v in report.machine.items() if k not in ("flags", "caches")})
    yield from ("", "## Drivers", "")
    rows = [
        (d.library, d.origin, "works" if d.works else "does not work", d.problem or d.advice)
        for d in report.drivers
    ]
    yield from table(("library", "from", "", "problem, next step"), rows)
    yield from ("", "Devices they show:", "")
    listed = [
        (r.id, r.name, r.driver, f"{r.memory >> 20} MiB", r.compute_units, r.note)
        for r in report.listed
    ]
    yield from table(("device", "name", "driver", "memory", "units", "note"), listed)
    for device in report.devices:
        yield from _device(device)


def _speeds(devices: Sequence[DeviceFindings]) -> Iterator[str]:
    head = (
        "device",
        "model",
        "in the shape of",
        "load s, packed",
        *(f"{t.name} t/s" for t in TESTS),
    )
    like = {shape.name: shape.like for shape in SHAPES}
    rows = [
        (
            device.row.id,
            row.model,
            like[row.model],
            row.load_s or UNKNOWN,
            *(_speed(row, test.name) for test in TESTS),
        )
        for device in devices
        for row in device.speeds
    ]
    if rows:
        yield from table(head, rows)


def _speed(row: SpeedRow, test: str) -> str:
    samples = row.samples_ts.get(test)
    return f"{median(samples):.1f}" if samples else UNKNOWN


def _device(device: DeviceFindings) -> Iterator[str]:
    yield from ("", f"## {plain(device.row.id)}: {plain(device.row.name)}", "")
    for step, problem in device.problems.items():
        yield f"- **{step}**: {plain(problem)}"
    took = ", ".join(f"{step} {s:g} s" for step, s in device.seconds.items())
    facts: dict[str, Any] = {"driver": device.row.driver, "took": took}
    if device.roof is not None:
        facts["reads memory"] = f"{device.roof.bytes_per_s / 1e9:.1f} GB/s in a plain kernel"
        facts["multiplies"] = f"{device.roof.flops_per_s / 1e9:.0f} GFLOP/s in 32 bits"
    if device.properties is not None:
        facts |= device.properties.traits
        facts["preferred multiple of a work-group"] = device.properties.group_multiple
        facts["tuning"] = ", ".join(f"{k} {v}" for k, v in device.properties.tuned.items())
    if device.tuned is not None:
        gains = device.tuned.gains.items()
        facts["tuned, times as fast"] = ", ".join(f"{k} {v:.2f}" for k, v in gains)
    yield from _facts(facts)
    yield from _cases(device)
    for row in device.speeds:
        for profile in row.profiles:
            yield from _profile(row, profile)
    if device.properties is not None:
        yield from ("", f"### Properties reported by the driver for {plain(device.row.id)}", "")
        yield from _facts(device.properties.values)


def _cases(device: DeviceFindings) -> Iterator[str]:
    if not device.cases:
        return
    yield from ("", "### Self test", "", f"{_passed(device)}.", "")
    failed = [case for case in device.cases if case.status == "failed"]
    rows = [
        (c.op, c.label, f"{c.error:.1e}", f"{c.most:.0e}", c.problem) for c in failed[:MOST_FAILED]
    ]
    if rows:
        yield from table(("operation", "case", "error", "allowed", "problem"), rows)
    if len(failed) > MOST_FAILED:
        yield f"\n{len(failed) - MOST_FAILED} more failed: see the JSON."


def _profile(row: SpeedRow, profile: dict[str, Any]) -> Iterator[str]:
    step = profile["step_ns"]
    yield from ("", f"### Where a step's time goes: {row.model}, {profile['test']}", "")
    parts = ("before", "kernels", "gaps", "after")
    shares = ", ".join(f"{part} {profile[f'{part}_ns'] / step:.1%}" for part in parts)
    costs = [cost for cost in profile["costs"] if cost["by"] == "kernel"]
    count = sum(cost["count"] for cost in costs)
    yield f"{step / 1e6:.3f} ms, {count} launches: host {shares.replace('after', 'host after')}."
    yield ""
    rows = [
        (
            cost["name"],
            cost["count"],
            f"{cost['ns'] / 1e3:.1f}",
            f"{cost['ns'] / step:.1%}",
            f"{cost['bytes'] / max(cost['ns'], 1):.1f}",
            f"{cost['flops'] / max(cost['ns'], 1):.1f}",
        )
        for cost in costs[:MOST_KERNELS]
    ]
    yield from table(("kernel", "launches", "us", "of the step", "GB/s", "GFLOP/s"), rows)


def _facts(facts: dict[str, Any]) -> Iterator[str]:
    rows = ((name, value) for name, value in facts.items() if value not in ("", {}, [], None))
    yield from table(("", ""), [(name.replace("_", " "), _value_text(v)) for name, v in rows])


def _value_text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)
