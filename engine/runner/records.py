"""The memory records as messages: what is planned and what is held."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

import psutil

from engine.device.backend import Backend, MemoryPool
from engine.errors import NoMem
from engine.memory.pools import SYSTEM, MeasuredPool
from engine.memory.records import BackendMemory, Status, now
from engine.protocol import ForeseenMemory, HeldMemory, PoolRow
from engine.runner.placing.dry_run import DryRun

Foreseen = TypeVar("Foreseen", bound=ForeseenMemory)


def records(dry: DryRun, failure: NoMem | None = None) -> BackendMemory:
    """The planned records, each with the state of its allocation."""
    return now(dry.memory(), pools_of(dry.backends), failure)


def held(dry: DryRun, memory: BackendMemory | None = None) -> HeldMemory:
    """Return the memory that the engine holds, now or at that moment; the mapped file's pages are
    listed.
    """
    found = (memory or records(dry)).rows()
    rows = [row for row in found if row.status != Status.UNALLOCATED]
    return HeldMemory(0, rows, pool_rows(dry.backends), dry.built.n_layer)


def foreseen(kind: type[Foreseen], request_id: int, dry: DryRun, failure: NoMem | None) -> Foreseen:
    """Memory that loading would take, and the shortfall against the tightest limit.

    What an open model holds does not count against it: a load frees that first.
    """
    over = max(overruns(dry).values(), default=0)
    short = max(over, failure.wanted - failure.left if failure is not None else 0)
    return kind(
        request_id,
        dry.memory().rows(),
        pool_rows(dry.backends),
        dry.built.n_layer,
        failure is None,
        short,
    )


def overruns(dry: DryRun) -> dict[str, int]:
    """Shortfalls in bytes: per device against its budget, per pool against its limit."""
    rows = [row for row in dry.memory().rows() if row.status == Status.UNALLOCATED]

    def wanted(names: Sequence[str]) -> int:
        return sum(row.size for row in rows if row.device in names)

    over = {b.name: wanted([b.name]) - b.budget for b in dry.backends if b.budget is not None}
    for pool in pools_of(dry.backends):
        names = [b.name for b in dry.backends if b.pool is pool]
        over[pool.name] = wanted(names) - pool.limit
    return {name: size for name, size in over.items() if size > 0}


def pools_of(backends: Iterable[Backend]) -> list[MemoryPool]:
    """The backends' pools, without duplicates."""
    return list({id(b.pool): b.pool for b in backends}.values())


def pool_rows(backends: Sequence[Backend]) -> list[PoolRow]:
    """One row per pool, with its free memory."""
    return [_pool_row(pool, backends) for pool in pools_of(backends)]


def _pool_row(pool: MemoryPool, backends: Sequence[Backend]) -> PoolRow:
    names = [b.name for b in backends if b.pool is pool]
    if not isinstance(pool, MeasuredPool):
        return PoolRow(pool.name, names, pool.limit, None, pool.limit, pool.used, "engine")
    free = pool.free()
    if pool.name == SYSTEM:  # within the control group; the bar shows the machine
        free_ram = max(0, psutil.virtual_memory().available - pool.in_files)
        return PoolRow(pool.name, names, pool.total, free_ram, pool.limit, pool.used, free.source)
    known = None if free.source == "engine" else free.size
    return PoolRow(pool.name, names, pool.total, known, pool.limit, pool.used, free.source)
