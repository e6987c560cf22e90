"""Data of a report, as in its JSON; and text in Markdown that is never markup."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from engine.protocol import (
    CaseResult,
    DeviceProperties,
    DeviceRoof,
    DeviceRow,
    DriverCheck,
    TrialResult,
    TuneResult,
)


class ReportWanted(msgspec.Struct, frozen=True):
    """The parts of a report: devices (none: each processor's best), full or short self-test, and
    whether kernels are tuned first.
    """

    devices: tuple[str, ...] = ()
    full: bool = False
    tune: bool = False


class SpeedRow(msgspec.Struct):
    """One model on one device: seconds it took to load; tokens per second of each repetition by
    test; where the time of a step goes (`Profile`, without single launches).
    """

    model: str
    load_s: float = 0.0
    samples_ts: dict[str, list[float]] = {}
    profiles: list[dict[str, Any]] = []
    problem: str = ""


class DeviceFindings(msgspec.Struct):
    """One device. `problems` has by step what went wrong, in a line each; `seconds` what steps
    took.
    """

    row: DeviceRow
    properties: DeviceProperties | None = None
    roof: DeviceRoof | None = None
    cases: list[CaseResult] = []
    trials: list[TrialResult] = []
    tuned: TuneResult | None = None
    speeds: list[SpeedRow] = []
    problems: dict[str, str] = {}
    seconds: dict[str, float] = {}


class Report(msgspec.Struct):
    """Everything; `stopped` where a person ended it before it was done."""

    when: str
    program: dict[str, str]
    machine: dict[str, Any]
    wanted: ReportWanted
    drivers: list[DriverCheck] = []
    listed: list[DeviceRow] = []
    devices: list[DeviceFindings] = []
    problems: dict[str, str] = {}
    stopped: bool = False


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """Lines of a table; cells are made plain."""
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield f"| {' | '.join(plain(str(cell)) for cell in row)} |"


def plain(text: str) -> str:
    """A text of a driver, a file, a model or a person, on one line: nothing of it is markup."""
    shown = "".join(c if c.isprintable() else " " for c in text)
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>#|!~&" else c for c in shown)
