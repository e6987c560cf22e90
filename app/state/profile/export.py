"""A recorded answer for others: Chrome's trace format, and what it was in sentences."""

from typing import Any

from app.bench.trace import HOST_ROW, complete, named
from app.state.profile.recorded import RecordedAnswer
from engine.protocol import Phase

PROCESS = 1
PHASES: dict[Phase, str] = {"prefill": "Prompt", "decode": "Answer"}


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
        said.append("Too short to measure the cost of recording.")
    else:
        said.append(
            f"A recorded step took {told.recorded_ns / 1e6:.2f} ms, a plain one "
            f"{told.plain_ns / 1e6:.2f} ms: recording cost {100 * cost:+.0f} %."
        )
    if told.n_dropped or told.every > 1:
        said.append(
            f"1 step in {told.every} was kept and {told.n_dropped} were dropped: "
            "a recording has a memory limit."
        )
    return said
