"""Times of a decode step on devices, measured without loading the model.

The model's own graph runs, with the kernels that an answer would use, but its weights and caches
share a little memory: enough that none is still in a processor's cache when it is read again.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from time import perf_counter, perf_counter_ns
from typing import NamedTuple

import numpy as np

from engine.device.backend import Backend, BufferType, Component, Location, Owner
from engine.errors import Cancelled
from engine.graph.tensor import Tensor
from engine.kvcache.states import StatePart
from engine.memory.placement import Placement
from engine.protocol import PartName
from engine.runner.batch import MAX_BATCH
from engine.runner.pictures.beside import Opened
from engine.runner.placing.dry_run import DryRun, dry_run
from engine.runner.placing.graphs import ModelGraphs
from engine.runner.stepper import TEXT, Stepper
from engine.scheduler.plan import Planner
from engine.scheduler.record import Recording
from engine.weights.load import Allocation

SHARED_BYTES = 192 << 20
"""Of weights, and of caches: more than any processor's cache holds."""
WARM_UP, CALM = 4, 16
"""Pairs of steps that do not count, and those without a shorter one that end it."""
BEATEN = 0.98
LONGEST = 5.0
"""Seconds, where other programs disturb it."""

Part = tuple[int, PartName]


class StepTiming(NamedTuple):
    """A decode step in nanoseconds: `total`, of which `host` are no device's, and `parts` of layers
    take the rest.
    """

    total: int
    host: int
    parts: Mapping[Part, int]


def time_step(
    opened: Opened,
    graphs: ModelGraphs,
    backends: tuple[Backend, ...],
    placement: Placement,
    part_of: Mapping[Tensor, Part],
    depth: int,
    cancelled: Callable[[], bool] = lambda: False,
) -> StepTiming:
    """The shortest of some steps after `depth` tokens, none of which was computed.

    Raises `NoMem`, `DeviceError`, `KernelBuildFailed`, `Cancelled`.
    """
    dry = dry_run(graphs, backends, placement)
    caches = graphs.built.caches
    with ExitStack() as stack:
        placed: dict[Tensor, Location] = {}
        for kind in (dry.weights, dry.caches):
            placed |= _shared(kind, stack)
        host = dry.backends[-1]
        mapped = {t: host.map(opened.data(t)) for t in dry.built.sources}
        homes = placed | {t: mapped[t] for t, _ in dry.mapped}
        planner = Planner(dry.backends, homes, mapped=mapped, pins=dry.pins)
        stack.callback(planner.close)
        stepper = Stepper(graphs.built, planner, graphs.fused)
        stack.callback(caches.clear)
        for first in range(0, depth, MAX_BATCH):
            last = min(depth, first + MAX_BATCH)
            caches.start(np.arange(first, last, dtype=np.int32), 0)
            caches.states.done(caches.states.start([StatePart(0, first, last - first)]))
        plain, recordings = _run(stepper, depth, cancelled)
        return _summed(dry, plain, recordings, part_of)
    raise AssertionError  # the stack never swallows an exception


def _run(
    stepper: Stepper, depth: int, cancelled: Callable[[], bool]
) -> tuple[list[int], list[Recording]]:
    """Plain steps and recorded ones in turn, until the shortest is no longer beaten."""
    plain: list[int] = []
    recordings: list[Recording] = []
    calm = -WARM_UP
    extras = TEXT if depth else stepper.any_prompt(1)
    begun = perf_counter()
    while calm < CALM and (perf_counter() - begun < LONGEST or not plain):
        if cancelled():
            raise Cancelled("measuring")
        start = perf_counter_ns()
        stepper.step([0], depth, [0], extras=extras)
        taken = perf_counter_ns() - start
        stepper.forget(depth)
        recording = Recording()
        stepper.step([0], depth, [0], recorder=recording, extras=extras)
        recording.done("logits")
        stepper.forget(depth)
        calm += 1
        if calm > 0:
            if plain and taken < BEATEN * min(plain):
                calm = 1
            plain.append(taken)
            recordings.append(recording)
    return plain, recordings


def _shared(allocations: Iterable[Allocation], stack: ExitStack) -> dict[Tensor, Location]:
    """Places in a buffer for each device and layout, taken again and again from its start on."""
    groups: dict[tuple[Backend, BufferType], list[tuple[Tensor, int]]] = defaultdict(list)
    for one in allocations:
        groups[one.backend, one.type] += one.tensors
    placed = {}
    for (backend, kind), tensors in groups.items():
        largest = max(size for _, size in tensors)
        most = min(sum(size for _, size in tensors), kind.max_size)
        size = max(largest, min(most, SHARED_BYTES))
        owner = Owner(Component.STAGING, name="for measuring")
        buffer = backend.allocate(kind, kind.padded(size), owner)
        stack.callback(buffer.free)
        at = 0
        for tensor, length in tensors:
            at = at if at + length <= size else 0
            placed[tensor] = Location(buffer, at)
            at += length
    return placed


def _summed(
    dry: DryRun,
    plain: Sequence[int],
    recordings: Sequence[Recording],
    part_of: Mapping[Tensor, Part],
) -> StepTiming:
    """The shortest of everything: what else runs on the machine only ever adds. Recording slows a
    step a little, so that what it shows are shares of the plain steps' time.
    """
    spans: dict[Part, list[int]] = defaultdict(list)
    outside = []
    host = dry.backends[-1].name
    for recording in recordings:
        ran = [one for _, device, one in recording.launches() if device != host]
        begun, end = ran[0].start, max(one.end for one in ran)
        outside.append(recording.host[-1].end - recording.started - (end - begun))
        taken: dict[Part, int] = defaultdict(int)
        part = min(part_of.values())
        for one, next_start in zip(ran, [*(one.start for one in ran[1:]), end], strict=True):
            read = [part_of[s.storage] for s in one.node.src if s and s.storage in part_of]
            part = read[0] if read else part
            taken[part] += next_start - one.start
        for key, ns in taken.items():
            spans[key].append(ns)
    parts = {key: min(found) for key, found in spans.items()}
    scale = min(plain) / (sum(parts.values()) + min(outside))
    scaled = {key: round(ns * scale) for key, ns in parts.items()}
    return StepTiming(min(plain), round(min(outside) * scale), scaled)
