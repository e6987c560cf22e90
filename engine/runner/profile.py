"""Where the time of a step goes: its launches, the gaps between them, and the host's share."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from time import perf_counter_ns

from engine.device.backend import Backend
from engine.errors import BadSetting, Cancelled, NoMem
from engine.graph.graph import is_numbered
from engine.protocol import Cost, LaunchRecord, StepProfile, StepRecord
from engine.runner.batch import MAX_BATCH
from engine.runner.bench import fill, random_ids
from engine.runner.launched import host_of, launches_of
from engine.runner.loading import LoadedModel
from engine.runner.sequence import Sequenced
from engine.runner.watch import splits_of
from engine.scheduler.record import UNRECORDED, Recorder, Recording

# A layer's number in a tensor's name: Qcur-3, cache_k_l3 (view).
_LAYER = re.compile(r"-\d+|(?<=_k)_l\d+|(?<=_v)_l\d+")


def profile(
    model: LoadedModel,
    sequence: Sequenced,
    n_tokens: int,
    depths: Sequence[int],
    n_steps: int,
    cancelled: Callable[[], bool],
) -> Iterator[StepProfile]:
    """Yields a profile per depth; what the steps computed stays in the context.

    Raises `BadSetting`, `Cancelled`.
    """
    if not 1 <= n_tokens <= MAX_BATCH:
        raise BadSetting("n_tokens", n_tokens, f"1 to a batch of {MAX_BATCH}")
    if n_steps < 1:
        raise BadSetting("steps", n_steps, "1 or more")
    for depth in depths:
        if depth + n_tokens > sequence.n_ctx:
            expected = f"with {n_tokens} more at most the context of {sequence.n_ctx}"
            raise BadSetting("depths", depth, expected)
        recordings, plain = [], []
        for i in range(-2, 2 * n_steps):  # the first two warm up
            if cancelled():
                raise Cancelled("the profile")
            fill(model, sequence, depth, cancelled)
            tokens = random_ids(model, n_tokens, seed=i + 2)
            if i % 2:
                recordings.append(_record(sequence, tokens))
            else:
                plain.append(_time(sequence, tokens))
        yield summarize(recordings[1:], plain[1:], n_tokens, depth)


def roof_of(device: Backend) -> tuple[float, float]:
    """Bytes and operations per second, measured now; zeros if memory does not suffice."""
    try:
        roof = device.roof()
    except NoMem:
        roof = None
    return (roof.bytes_per_s, roof.flops_per_s) if roof else (0.0, 0.0)


def _record(sequence: Sequenced, tokens: list[int]) -> Recording:
    recording = Recording()
    _step(sequence, tokens, recording)
    recording.done("logits")
    return recording


def _time(sequence: Sequenced, tokens: list[int]) -> int:
    start = perf_counter_ns()
    _step(sequence, tokens)
    return perf_counter_ns() - start


def _step(sequence: Sequenced, tokens: list[int], recorder: Recorder = UNRECORDED) -> None:
    first, outputs = len(sequence.items), [len(tokens) - 1]
    sequence.stepper.step(tokens, first, outputs, sequence.number, recorder)
    sequence.items += tokens


def step_record(recording: Recording) -> StepRecord:
    """All of a recorded step; requested when it has ended."""
    return StepRecord(
        recording.host[-1].end - recording.started,
        launches_of(recording).records(),
        host_of(recording),
        splits_of([recording]),
    )


def summarize(
    recordings: Sequence[Recording], plain_ns: Sequence[int], n_tokens: int, n_depth: int
) -> StepProfile:
    """The step of median length in full, and the medians of all for every group of launches."""
    steps = [launches_of(recording).records() for recording in recordings]
    lengths = [recording.host[-1].end - recording.started for recording in recordings]
    middle = sorted(range(len(lengths)), key=lengths.__getitem__)[(len(lengths) - 1) // 2]
    chosen = steps[middle]
    on_device = [one for one in chosen if one.device != "host"] or chosen
    busy = sum(one.end - one.start for one in on_device)
    first, last = on_device[0].start, max(one.end for one in on_device)
    return StepProfile(
        n_tokens=n_tokens,
        n_depth=n_depth,
        n_steps=len(recordings),
        step_ns=lengths[middle],
        plain_ns=round(median(plain_ns)),
        before_ns=first,
        kernels_ns=busy,
        gaps_ns=last - first - busy,
        after_ns=lengths[middle] - last,
        costs=_costs(steps),
        launches=chosen,
        host=host_of(recordings[middle]),
        splits=splits_of(recordings),
    )


def _costs(steps: Sequence[Sequence[LaunchRecord]]) -> list[Cost]:
    """Largest first within kernel, op, role and split."""
    groupings: dict[str, Callable[[LaunchRecord], str]] = {
        "kernel": lambda one: one.kernel,
        "op": lambda one: one.op,
        "role": _role,
        "split": lambda one: f"{one.split} {one.device}",
    }
    costs = []
    for by, key in groupings.items():
        groups: dict[str, list[list[LaunchRecord]]] = defaultdict(list)
        for step in steps:
            parts = defaultdict(list)
            for one in step:
                parts[key(one)].append(one)
            for name, part in parts.items():
                groups[name].append(part)
        found = [_cost(by, name, parts) for name, parts in groups.items()]
        costs += sorted(found, key=lambda cost: -cost.ns)
    return costs


def _cost(by: str, name: str, steps: Sequence[Sequence[LaunchRecord]]) -> Cost:
    ns = round(median(sum(one.end - one.start for one in step) for step in steps))
    last = steps[-1]
    n_bytes, flops = sum(one.bytes for one in last), sum(one.flops for one in last)
    return Cost(by, name, len(last), ns, n_bytes, flops)


def _role(launch: LaunchRecord) -> str:
    """The launch's role in every layer: its tensor's name without the layer, and its operation."""
    name = _LAYER.sub("", launch.name)
    return launch.op if is_numbered(name) else f"{name}: {launch.op}"
