"""The launches of a recorded step: what they are is found once per plan, when they ran per step."""

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from engine.device.backend import Commands, Spans
from engine.graph.tensor import Role, Tensor
from engine.graph.work import NodeWork, SeenWork, fixed_work, seen
from engine.protocol import HostRecord, LaunchKind, LaunchRecord
from engine.scheduler.record import RanSplit, Recording, Values

Work = NDArray[np.int64]
"""[2, launches]: bytes and float operations."""


@dataclass(frozen=True)
class _Seen:
    """Work that depends on attention's cells: indices of launches in a split, and bytes and
    operations as `fixed` [2, n], for each cell and pair as `each` [2, n].
    """

    spans: Tensor
    places: NDArray[np.intp]
    fixed: Work
    each: Work


@dataclass(frozen=True, eq=False)
class LaunchTable:
    """The launches of a split, in queue order, for any step of its plan."""

    kinds: tuple[LaunchKind, ...]
    fixed: Work
    seen: tuple[_Seen, ...]

    def work(self, inputs: Values) -> Work:
        """Return the work of a step with these inputs."""
        work = self.fixed.copy()
        for one in self.seen:
            counts = seen(inputs[one.spans])
            if counts[0]:
                pairs, cells = counts
                work[:, one.places] = one.fixed + one.each * [[cells], [pairs]]
        return work


@dataclass(frozen=True)
class StepLaunches:
    """Launches of one step, ordered by start time: `order` holds their indices in the concatenated
    `tables`; `spans` are in nanoseconds since the step began.
    """

    tables: Sequence[LaunchTable]
    order: NDArray[np.intp]
    spans: Spans
    work: Work

    def records(self) -> list[LaunchRecord]:
        """All that is known of each."""
        kinds = [kind for table in self.tables for kind in table.kinds]
        numbers = np.concatenate((self.spans, self.work)).T.tolist()
        return [
            LaunchRecord(k.split, k.device, k.kernel, k.op, k.name, *row)
            for k, row in zip((kinds[i] for i in self.order), numbers, strict=True)
        ]


_TABLES: WeakKeyDictionary[Commands, LaunchTable] = WeakKeyDictionary()


def launches_of(recording: Recording) -> StepLaunches:
    """Requested when the step has ended."""
    ran = recording.ran()
    tables = [_table(one) for one in ran]
    spans = np.concatenate([np.empty((2, 0), np.int64), *(one.spans for one in ran)], axis=1)
    work = [table.work(recording.inputs) for table in tables]
    order = np.argsort(spans[0], kind="stable")
    every = np.concatenate([np.empty((2, 0), np.int64), *work], axis=1)
    return StepLaunches(tables, order, spans[:, order] - recording.started, every[:, order])


def host_of(recording: Recording) -> list[HostRecord]:
    """Return the host's activities, in nanoseconds since the start of the step."""
    began = recording.started
    return [HostRecord(span.name, span.start - began, span.end - began) for span in recording.host]


def _table(ran: RanSplit) -> LaunchTable:
    """Kept as long as the plan whose commands they are."""
    table = _TABLES.get(ran.commands)
    if table is None:
        table = _TABLES[ran.commands] = _described(ran)
    return table


def _described(ran: RanSplit) -> LaunchTable:
    launched = ran.commands.launched
    fixed = np.zeros((2, len(launched)), np.int64)
    seeing: dict[Tensor, list[tuple[int, SeenWork]]] = {}
    before: Tensor | None = None
    for i, (node, _) in enumerate(launched):
        if node is not before:  # a node's work counts once, though it may take several launches
            work = fixed_work(node)
            if isinstance(work, NodeWork):
                fixed[:, i] = work.bytes, work.flops
            else:
                seeing.setdefault(work.spans, []).append((i, work))
        before = node
    kinds = tuple(
        LaunchKind(ran.split, ran.device, _kernel(node, kernel), node.op, node.name)
        for node, kernel in launched
    )
    return LaunchTable(kinds, fixed, tuple(_seen(*pair) for pair in seeing.items()))


def _seen(spans: Tensor, found: Sequence[tuple[int, SeenWork]]) -> _Seen:
    return _Seen(
        spans,
        np.array([i for i, _ in found]),
        np.array([[work.fixed for _, work in found], [0] * len(found)]),
        np.array([[work.cell_bytes, work.pair_flops] for _, work in found]).T,
    )


def _kernel(node: Tensor, kernel: str) -> str:
    """The kernel's name with the types of weights, since each type has its own program."""
    matrices = [s for s in node.src if s and s.role is Role.WEIGHT and s.shape[1] > 1]
    return " ".join([kernel, *dict.fromkeys(w.fmt.name for w in matrices)])
