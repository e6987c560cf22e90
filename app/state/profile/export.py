"""A recorded answer for others: Chrome's trace format, and a report to attach to an issue."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from app.bench.trace import HOST_ROW, complete, named
from app.state.profile.recorded import By, RecordedAnswer
from engine.protocol import Phase

PROCESS = 1
PHASES: dict[Phase, str] = {"prefill": "Prompt", "decode": "Answer"}
MOST_ROWS = 40  # of a table in the report


def chrome_trace(answer: RecordedAnswer) -> dict[str, Any]:
    """For Perfetto: one row for the host, one per device, the whole answer on one clock."""
    rows = {device: row for row, device in enumerate(answer.devices, HOST_ROW + 1)}
    events = [
        named("process_name", PROCESS, HOST_ROW, answer.model or "answer"),
        named("thread_name", PROCESS, HOST_ROW, "host"),
    ]
    events += [named("thread_name", PROCESS, row, device) for device, row in rows.items()]
    for step in answer.told.steps:
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
    told, said = answer.told, []
    for phase, title in PHASES.items():
        n, tokens = answer.n_steps(phase), answer.n_tokens(phase)
        if n:
            each = answer.step_ns(phase) / tokens / 1e6
            steps = "1 step" if n == 1 else f"{n} steps"
            said.append(f"{title}: {tokens} tokens in {steps}, {each:.2f} ms each.")
    cost = answer.cost
    if cost is None:
        said.append("Too short to tell what recording costs.")
    else:
        said.append(
            f"A recorded step took {told.recorded_ns / 1e6:.2f} ms, a plain one "
            f"{told.plain_ns / 1e6:.2f} ms: recording cost {100 * cost:+.0f} %."
        )
    if told.n_dropped or told.every > 1:
        said.append(
            f"Of the answer's steps 1 in {told.every} was kept, {told.n_dropped} were let go: "
            "the memory of a recording is bounded."
        )
    return said


def report(answer: RecordedAnswer, picture: str, data: str) -> str:
    """Markdown that names the picture and the data beside it."""
    when = datetime.fromtimestamp(answer.when)
    lines = [
        f"# Profile of {_plain(answer.model) or 'an answer'}",
        "",
        f"Recorded {when:%Y-%m-%d %H:%M} on {', '.join(answer.devices)}.",
        *summary(answer),
        "",
        f"![What the view shows]({picture})",
        "",
        f"All numbers are in [{data}]({data}).",
    ]
    for phase, title in PHASES.items():
        for by in ("operation", "kernel", "layer"):
            lines += _table(answer, by, phase, title) if answer.n_steps(phase) else []
    return "\n".join(lines) + "\n"


def _table(answer: RecordedAnswer, by: By, phase: Phase, title: str) -> Sequence[str]:
    totals, tokens = answer.totals(by, phase), max(answer.n_tokens(phase), 1)
    whole = max(sum(total.ns for total in totals), 1)
    rows = [
        f"| {_plain(total.name)} | {total.count} | {total.ns / tokens / 1e6:.4f} "
        f"| {100 * total.ns / whole:.1f} | {total.bytes_per_s / 1e9:.1f} "
        f"| {total.flops_per_s / 1e9:.1f} |"
        for total in totals[:MOST_ROWS]
    ]
    head = f"| {by} | launches | ms per token | % | GB/s | GFLOP/s |"
    return ["", f"## {title} by {by}", "", head, "|---|---:|---:|---:|---:|---:|", *rows]


def _plain(text: str) -> str:
    """A name in Markdown: nothing of it is markup."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>#|!" else c for c in plain)
