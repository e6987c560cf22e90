"""Memory that is planned, held, predicted and was allocated."""

from typing import ClassVar

import msgspec

from engine.protocol.message import Reply, Request
from engine.settings import EngineOptions


class MemoryRow(msgspec.Struct, frozen=True):
    """Bytes of one device, component and layer (None: of no layer), as planned or as they are.

    `status` is planned, allocated, mapped (file pages, not allocated) or failed.
    """

    device: str
    component: str
    layer: int | None
    size: int
    status: str


class PoolRow(msgspec.Struct, frozen=True):
    """Memory that devices share, in bytes. `free` None where unknown; `source` says who knows.

    `limit` is what the engine allows itself, `used` what it holds.
    """

    name: str
    devices: list[str]
    total: int
    free: int | None
    limit: int
    used: int
    source: str


class Memory(Reply, frozen=True):
    """Records of memory; the class says whether it is held, planned or predicted.

    The model has layers 0 to n_layer - 1; rows of layer `n_layer` are the output block's.
    """

    rows: list[MemoryRow]
    pools: list[PoolRow]
    n_layer: int


class HeldMemory(Memory, frozen=True):
    """Memory that the engine holds, and refused allocations; sent with `id` 0 when it changes."""


class ForeseenMemory(Memory, frozen=True):
    """Memory that loading a model takes, and by how many bytes it exceeds the tightest limit."""

    fits: bool = True
    shortfall: int = 0


class PlannedMemory(ForeseenMemory, frozen=True):
    """Memory about to be allocated; sent with `id` 0 before it is."""


class PredictedMemory(ForeseenMemory, frozen=True):
    """Memory that a load would allocate. `tokens_per_s` is of decode with an empty cache, None
    where it does not fit or the devices were not measured.
    """

    tokens_per_s: float | None = None


class MemoryEvent(msgspec.Struct, frozen=True):
    """An allocation: allocate, free or refuse. `used` is what the pool's devices hold after it.

    `time_ns` counts from 1970; `name` distinguishes single buffers where there is need.
    """

    time_ns: int
    kind: str
    pool: str
    device: str
    component: str
    layer: int | None
    name: str
    size: int
    used: int


class MemoryEvents(Reply, frozen=True):
    """Allocations and releases since the last such message, in order; sent with `id` 0."""

    events: list[MemoryEvent]


class Predict(Request[PredictedMemory], frozen=True):
    """Predict the memory of `Load`, without loading."""

    beside: ClassVar[bool] = True

    path: str
    options: EngineOptions
