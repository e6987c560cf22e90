"""A profile in Chrome's trace format, for Perfetto: one process per step, one row per device.

Format: "Trace Event Format" of the Chromium project; complete events (ph X), times in microseconds.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from engine.protocol import StepProfile

HOST_ROW = 0


def trace(profiles: Sequence[StepProfile]) -> dict[str, Any]:
    """Return the trace as an object for json.dump."""
    events = [event for pid, profile in enumerate(profiles, 1) for event in _events(pid, profile)]
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _events(pid: int, profile: StepProfile) -> Iterator[dict[str, Any]]:
    devices = list(dict.fromkeys(launch.device for launch in profile.launches))
    rows = {device: row for row, device in enumerate(devices, 1)}
    yield named("process_name", pid, HOST_ROW, profile.name)
    yield named("thread_name", pid, HOST_ROW, "step")
    for device, row in rows.items():
        yield named("thread_name", pid, row, device)
    for span in profile.host:
        yield complete(pid, HOST_ROW, "step", span.name, span.start, span.end, {})
    for one in profile.launches:
        facts = {"tensor": one.name, "op": one.op, "split": one.split}
        facts |= {"bytes": one.bytes, "flops": one.flops}
        yield complete(pid, rows[one.device], one.op, one.kernel, one.start, one.end, facts)


def named(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    """Return the event that names a process or a row."""
    return {"name": what, "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}


def complete(
    pid: int, tid: int, category: str, name: str, start: int, end: int, facts: dict[str, object]
) -> dict[str, Any]:
    """An event from `start` to `end`, in nanoseconds."""
    place = {"name": name, "cat": category, "ph": "X", "pid": pid, "tid": tid}
    return place | {"ts": start / 1e3, "dur": (end - start) / 1e3, "args": facts}
