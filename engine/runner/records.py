"""The memory records: what is planned and what is held, per device, component and layer."""

from collections.abc import Iterable, Sequence

import psutil

from engine.backends.base import Backend, MemoryPool
from engine.memory.pools import SYSTEM
from engine.protocol import Memory, MemoryRow, PoolRow
from engine.runner.placement import Placement


def held(backends: Sequence[Backend], placement: Placement | None) -> Memory:
    """What the engine holds now; the mapped file's pages are listed, not counted."""
    rows = [
        MemoryRow(device, owner.component, owner.layer, size, "allocated")
        for pool in _pools(backends)
        for (device, owner), size in pool.taken.items()
    ]
    rows += placement.mapped_rows() if placement is not None else []
    return Memory(0, rows, [_row(pool, backends) for pool in _pools(backends)])


def planned(request_id: int, placement: Placement) -> Memory:
    """What loading would take, and by how much it passes the tightest limit.

    What an open model holds does not count against it: a load frees that first.
    """
    backends, rows = placement.backends, placement.rows()
    pools = _pools(backends)
    over = [
        sum(r.size for r in rows if r.status == "planned" and r.device in _names(pool, backends))
        - pool.limit
        for pool in pools
    ]
    shortfall = max(0, *over)
    return Memory(request_id, rows, [_row(p, backends) for p in pools], shortfall == 0, shortfall)


def _pools(backends: Iterable[Backend]) -> list[MemoryPool]:
    return list({id(b.pool): b.pool for b in backends}.values())


def _names(pool: MemoryPool, backends: Iterable[Backend]) -> list[str]:
    return [b.name for b in backends if b.pool is pool]


def _row(pool: MemoryPool, backends: Sequence[Backend]) -> PoolRow:
    names = _names(pool, backends)
    if pool.name != SYSTEM:
        return PoolRow(pool.name, names, pool.limit, None, pool.limit, pool.used, "engine")
    memory = psutil.virtual_memory()
    return PoolRow(
        pool.name, names, memory.total, memory.available, pool.limit, pool.used, "system"
    )
