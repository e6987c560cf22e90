"""A recorded answer as columns of numbers: spans, sums, and how near a kernel comes to the roof;
its export in Chrome's trace format, and its summary in sentences.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from app.bench.trace import HOST_ROW, complete, named
from app.language import tr, tr_n
from engine.protocol import AnswerRecorded, LaunchKind, Phase

By = Literal["operation", "layer", "kernel", "device"]
NO_LAYER = tr("outside of layers")
_OF_LAYER = re.compile(r".*(?:-|_l)(\d+)(?: \(.*\))?")
_I64 = NDArray[np.int64]


def layer_of_node(name: str) -> int | None:
    """The layer that a node's name ends with: 3 for `Qcur-3` and `cache_k_l3 (view)`."""
    found = _OF_LAYER.fullmatch(name)
    return int(found[1]) if found is not None else None


@dataclass(frozen=True)
class Total:
    """Sums over a group of launches in all steps of a phase."""

    name: str
    count: int
    ns: int
    bytes: int
    flops: int

    @property
    def bytes_per_s(self) -> float:
        return self.bytes / self.ns * 1e9 if self.ns else 0.0

    @property
    def flops_per_s(self) -> float:
        return self.flops / self.ns * 1e9 if self.ns else 0.0

    @property
    def intensity(self) -> float:
        """Operations per byte."""
        return self.flops / self.bytes if self.bytes else 0.0


@dataclass(frozen=True)
class RecordedAnswer:
    """The recording of one answer of a `model`, at `when` (seconds since the epoch)."""

    record: AnswerRecorded
    model: str
    when: float

    @cached_property
    def steps_of(self) -> NDArray[np.int32]:
        """The step of each launch, as an index into `record.steps`."""
        counts = [len(step.kinds) // 4 for step in self.record.steps]
        return np.repeat(np.arange(len(counts), dtype=np.int32), counts)

    @cached_property
    def kinds(self) -> NDArray[np.int32]:
        """The kind of each launch, as an index into `record.kinds`."""
        return np.concatenate(
            [np.frombuffer(step.kinds, "<i4") for step in self.record.steps]
            or [np.zeros(0, np.int32)]
        ).astype(np.int32)

    @cached_property
    def starts(self) -> _I64:
        """Nanoseconds since the first step began."""
        return self._column("starts", with_start=True)

    @cached_property
    def ends(self) -> _I64:
        return self._column("ends", with_start=True)

    @cached_property
    def sizes(self) -> _I64:
        return self._column("sizes")

    @cached_property
    def flops(self) -> _I64:
        return self._column("flops")

    @property
    def devices(self) -> list[str]:
        """In the order in which they first run."""
        return list(dict.fromkeys(kind.device for kind in self.record.kinds))

    def n_steps(self, phase: Phase) -> int:
        return sum(step.phase == phase for step in self.record.steps)

    def n_tokens(self, phase: Phase) -> int:
        return sum(step.n_tokens for step in self.record.steps if step.phase == phase)

    def step_ns(self, phase: Phase) -> int:
        """Return the host time of all steps of a phase, in ns."""
        return sum(step.step_ns for step in self.record.steps if step.phase == phase)

    def kind(self, launch: int) -> LaunchKind:
        """Return the kind of a launch."""
        return self.record.kinds[int(self.kinds[launch])]

    def on_device(self, device: str) -> NDArray[np.intp]:
        """The launches of a device, by their start."""
        mine = np.array([kind.device == device for kind in self.record.kinds], bool)
        found = np.flatnonzero(mine[self.kinds]) if len(self.kinds) else np.zeros(0, np.intp)
        return found[np.argsort(self.starts[found], kind="stable")]

    def of_phase(self, phase: Phase) -> NDArray[np.bool_]:
        """Return a mask of the launches in a phase."""
        phases = np.array([step.phase == phase for step in self.record.steps], bool)
        return phases[self.steps_of] if len(phases) else np.zeros(0, bool)

    def totals(self, by: By, phase: Phase) -> list[Total]:
        """Sums over a phase, those of the longest time first."""
        key = _KEYS[by]
        names = list(dict.fromkeys(key(kind) for kind in self.record.kinds))
        place = {name: at for at, name in enumerate(names)}
        groups = np.array([place[key(kind)] for kind in self.record.kinds], np.intp)
        mine = self.of_phase(phase)
        group = groups[self.kinds[mine]] if len(groups) else np.zeros(0, np.intp)
        sums = [
            np.bincount(group, weights=column[mine], minlength=len(names))
            for column in (self.ends - self.starts, self.sizes, self.flops)
        ]
        counts = np.bincount(group, minlength=len(names))
        found = [
            Total(name, int(counts[at]), *(int(column[at]) for column in sums))
            for at, name in enumerate(names)
            if counts[at]
        ]
        return sorted(found, key=lambda total: -total.ns)

    def place_in_step(self, launch: int) -> int:
        """How many launches of its step run before one."""
        return launch - int(np.searchsorted(self.steps_of, self.steps_of[launch]))

    def group(self, by: By, launch: int) -> str:
        """The name of the group that a launch is counted in."""
        return _KEYS[by](self.kind(launch))

    def longest(self, by: By, name: str, phase: Phase) -> int | None:
        """Return the longest launch of a group."""
        mine = self._where(lambda kind: _KEYS[by](kind) == name, phase)
        if not len(mine):
            return None
        return int(mine[np.argmax(self.ends[mine] - self.starts[mine])])

    def find(
        self,
        operation: str | None,
        layer: int | None,
        device: str | None,
        phase: Phase,
        near: int | None,
    ) -> int | None:
        """The launch of what is selected, of several the nearest to another one: of that operation
        or else the first of the layer or of the device; None where there is none.
        """
        if operation is None and layer is None and device is None:
            return None
        name = operation.partition("#")[0] if operation is not None else None

        def fits(kind: LaunchKind) -> bool:
            return (
                name in (kind.name, None)
                and layer in (layer_of_node(kind.name), None)
                and device in (kind.device, None)
            )

        mine = self._where(fits, phase)
        if not len(mine):
            return None
        if near is None:
            middle = self.steps_of[mine[len(mine) // 2]]
            return int(mine[self.steps_of[mine] == middle][0])
        if near in mine:
            return near
        step = self.steps_of[near]
        beside = mine[np.argmin(np.abs(self.steps_of[mine] - step))]
        return int(mine[self.steps_of[mine] == self.steps_of[beside]][0])

    def _where(self, fits: Callable[[LaunchKind], bool], phase: Phase) -> NDArray[np.intp]:
        """The launches of a phase whose kind fits."""
        wanted = np.array([fits(kind) for kind in self.record.kinds], bool)
        if not len(wanted):
            return np.zeros(0, np.intp)
        return np.flatnonzero(wanted[self.kinds] & self.of_phase(phase))

    @property
    def cost(self) -> float | None:
        """By how much a recorded step is longer than a plain one; None where there were none."""
        plain, recorded = self.record.plain_ns, self.record.recorded_ns
        return recorded / plain - 1 if plain and recorded else None

    def _column(self, name: str, with_start: bool = False) -> _I64:
        parts = [np.frombuffer(getattr(step, name), "<i8") for step in self.record.steps]
        if with_start:
            pairs = zip(self.record.steps, parts, strict=True)
            parts = [part + step.start for step, part in pairs]
        return np.concatenate(parts or [np.zeros(0, np.int64)]).astype(np.int64)


@dataclass(frozen=True)
class TimeDifference:
    """A group of launches in two answers: nanoseconds per token; None where it is in one only."""

    name: str
    before: float | None
    after: float | None

    @property
    def change(self) -> float | None:
        """In nanoseconds per token; a group that is missing counts as none."""
        return (self.after or 0.0) - (self.before or 0.0)


def differences(
    before: RecordedAnswer, after: RecordedAnswer, by: By, phase: Phase
) -> list[TimeDifference]:
    """Group by group, the largest change first."""
    sums = []
    for answer in (before, after):
        n = max(answer.n_tokens(phase), 1)
        sums.append({total.name: total.ns / n for total in answer.totals(by, phase)})
    names = dict.fromkeys([*sums[1], *sums[0]])
    found = [TimeDifference(name, sums[0].get(name), sums[1].get(name)) for name in names]
    return sorted(found, key=lambda one: -abs(one.change or 0.0))


_KEYS: dict[By, Callable[[LaunchKind], str]] = {
    "operation": lambda kind: kind.op,
    "layer": lambda kind: _layer_name(kind.name),
    "kernel": lambda kind: f"{kind.device} {kind.kernel}",
    "device": lambda kind: kind.device,
}


def _layer_name(name: str) -> str:
    layer = layer_of_node(name)
    return NO_LAYER if layer is None else tr("layer {layer}", layer=layer)


def as_json(answers: Sequence[RecordedAnswer]) -> list[dict[str, Any]]:
    """Every number, for programs: launches as [step, kind, start, end, bytes, flops]."""
    made = []
    for answer in answers:
        columns = (
            *(answer.steps_of, answer.kinds, answer.starts),
            *(answer.ends, answer.sizes, answer.flops),
        )
        made.append(
            {
                "model": answer.model,
                "when": answer.when,
                "plain_ns": answer.record.plain_ns,
                "recorded_ns": answer.record.recorded_ns,
                "every": answer.record.every,
                "n_dropped": answer.record.n_dropped,
                "kinds": [
                    {name: getattr(kind, name) for name in kind.__struct_fields__}
                    for kind in answer.record.kinds
                ],
                "steps": [
                    {
                        "phase": step.phase,
                        "n_tokens": step.n_tokens,
                        "n_context": step.n_context,
                        "start_ns": step.start,
                        "step_ns": step.step_ns,
                        "host": [[span.name, span.start, span.end] for span in step.host],
                    }
                    for step in answer.record.steps
                ],
                "launches": np.stack(columns, axis=1).tolist() if len(answer.kinds) else [],
            }
        )
    return made


PROCESS = 1
PHASES: dict[Phase, str] = {"prefill": tr("Prompt"), "decode": tr("Answer")}


def chrome_trace(answer: RecordedAnswer) -> dict[str, Any]:
    """For Perfetto: one row for the host, one per device, the whole answer on one clock."""
    rows = {device: row for row, device in enumerate(answer.devices, HOST_ROW + 1)}
    events = [
        named("process_name", PROCESS, HOST_ROW, answer.model or "answer"),
        named("thread_name", PROCESS, HOST_ROW, "host"),
    ]
    events += [named("thread_name", PROCESS, row, device) for device, row in rows.items()]
    for step in answer.record.steps:
        for span in step.host:
            start, end = step.start + span.start, step.start + span.end
            facts: dict[str, object] = {"phase": step.phase, "context": step.n_context}
            events.append(complete(PROCESS, HOST_ROW, "step", span.name, start, end, facts))
    starts, ends = answer.starts.tolist(), answer.ends.tolist()
    sizes, flops = answer.sizes.tolist(), answer.flops.tolist()
    for at, (start, end) in enumerate(zip(starts, ends, strict=True)):
        kind = answer.kind(at)
        facts = {"tensor": kind.name, "op": kind.op, "split": kind.split}
        facts |= {"bytes": sizes[at], "flops": flops[at]}
        row = rows[kind.device]
        events.append(complete(PROCESS, row, kind.op, kind.kernel, start, end, facts))
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def summary(answer: RecordedAnswer) -> list[str]:
    """The answer in sentences: its steps by phase, what was let go, what recording costs."""
    record, sentences = answer.record, []
    for phase, title in PHASES.items():
        n, tokens = answer.n_steps(phase), answer.n_tokens(phase)
        if n:
            each = answer.step_ns(phase) / tokens / 1e6
            steps = tr_n("{n} step", "{n} steps", n)
            sentences.append(
                tr(
                    "{title}: {tokens} tokens in {steps}, {each:.2f} ms each.",
                    title=title,
                    tokens=tokens,
                    steps=steps,
                    each=each,
                )
            )
    cost = answer.cost
    if cost is None:
        sentences.append(tr("Too short to measure the cost of recording."))
    else:
        sentences.append(
            tr(
                "A recorded step took {recorded_ns:.2f} ms, a plain one {plain_ns:.2f} ms:"
                " recording cost {cost:+.0f} %.",
                recorded_ns=record.recorded_ns / 1000000.0,
                plain_ns=record.plain_ns / 1000000.0,
                cost=100 * cost,
            )
        )
    if record.n_dropped or record.every > 1:
        sentences.append(
            tr(
                "1 step in {every} was kept and {n_dropped} were dropped: a recording has a"
                " memory limit.",
                every=record.every,
                n_dropped=record.n_dropped,
            )
        )
    return sentences
