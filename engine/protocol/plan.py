"""Where a model would go, and the splits of its graph."""

from typing import ClassVar

import msgspec

from engine.protocol.memory import PlannedMemory
from engine.protocol.message import Reply, Request
from engine.settings import ActivationBits, EngineOptions


class CopyRow(msgspec.Struct, frozen=True):
    """A tensor that a split needs from elsewhere; `origin` None is an input of the step."""

    name: str
    origin: str | None
    size: int


class SplitRow(msgspec.Struct, frozen=True):
    """A run of nodes on one device, and what is brought to it first."""

    device: str
    n_nodes: int
    first: str
    last: str
    copies: list[CopyRow]


class ArenaRow(msgspec.Struct, frozen=True):
    """A device's memory for a graph: `size` bytes, where no order of tensors needs fewer than
    `bound`. Most is in use while `node` runs (empty: during copies), by the tensors in
    `alive`, with their bytes, the largest first.
    """

    device: str
    size: int
    bound: int
    node: str
    alive: list[tuple[str, int]]


class BudgetRow(msgspec.Struct, frozen=True):
    """Bytes planned on a device, and the most it may hold; `over` is the excess."""

    device: str
    wanted: int
    limit: int
    over: int


class Speed(msgspec.Struct, frozen=True):
    """Predicted decode after `depth` tokens of context. Of a step's nanoseconds `devices` has those
    of each device, `copies` those of going on on another one, `host` those that none computes.
    `source` says what was measured for it.
    """

    tokens_per_s: float
    depth: int
    devices: dict[str, int]
    copies: int
    host: int
    source: str


class Planned(Reply, frozen=True):
    """A placement, with what it takes. `layers[i]` is the device of layer i, the last one the
    output block's; `overrides` are pattern and device; `splits` are of one token, `crossing` the
    bytes that go between devices for it. `problem` says what does not fit, `warnings` what is slow;
    `nodes` is text. `arenas` are those of a full batch over whole caches. `rule` is the whole
    placement in the shortest words of `place`; `speed` is None where devices were not measured.
    """

    name: str
    architecture: str
    n_ctx: int
    kv: str
    layers: list[str]
    overrides: list[tuple[str, str]]
    reasons: list[str]
    memory: PlannedMemory
    budgets: list[BudgetRow]
    log: list[str]
    splits: list[SplitRow]
    arenas: list[ArenaRow]
    crossing: int
    warnings: list[str] = []
    problem: str = ""
    nodes: str = ""
    rule: str = ""
    speed: Speed | None = None
    activations: ActivationBits = 12


class DescribePlan(Request[Planned], frozen=True):
    """Like `Predict`, with splits and, if wanted, the backend of every node."""

    beside: ClassVar[bool] = True

    path: str
    options: EngineOptions
    nodes: bool = False
