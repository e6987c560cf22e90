"""The graph of one step: who computes what and why, what is copied, launched, and kept where."""

from typing import ClassVar

import msgspec

from engine.protocol.message import Reply, Request
from engine.settings import EngineOptions


class GraphNode(msgspec.Struct, frozen=True):
    """A tensor of the graph. (`name`, `occurrence`) is its key: equal names count from 0 in order.

    `role` is empty for what is computed, else view, weight, cache or input; `dims` are ggml's,
    `size` bytes. `layer` is None before the first one, the output block's is `n_layer`. `cause` is
    the rule that chose the device in the scheduler's words (1.wgt0), `why` the same as a sentence.
    `sources` are nodes in the order of the operands. `split` and `launch` are -1 for what nothing
    runs for, `life` (of the device's arena) for what has no place there: leaves, views, and what
    vanished into a fused launch.
    """

    name: str
    occurrence: int
    op: str
    dtype: str
    dims: list[int]
    size: int
    role: str
    layer: int | None
    device: str
    cause: str
    why: str
    sources: list[int]
    split: int
    launch: int
    life: int


class CopyNode(msgspec.Struct, frozen=True):
    """The bytes of `node` brought to a split's device, from `origin` (None: an input of the step).

    `made` is the split that computed it, -1 where it lies there from the start; `reader` the first
    node of the split that wants it.
    """

    name: str
    node: int
    origin: str | None
    size: int
    made: int
    reader: int


class SplitNode(msgspec.Struct, frozen=True):
    """Consecutive nodes on one device, named by the first and the last; `why` it begins there."""

    device: str
    n_nodes: int
    first: str
    last: str
    why: str
    copies: list[CopyNode]


class LaunchNode(msgspec.Struct, frozen=True):
    """A launch made from some nodes: `kernels` one after the other, with their `defines`.

    `nodes` are what it computes or helps to, none for a helper. `bytes` and `flops` are what its
    shapes need; `step` is its time in the arenas' lives.
    """

    split: int
    device: str
    op: str
    name: str
    kernels: list[str]
    defines: list[str]
    nodes: list[int]
    sources: list[int]
    bytes: int
    flops: int
    step: int


class ArenaLife(msgspec.Struct, frozen=True):
    """Bytes of an arena from step `first` to `last`, included; `node` is -1 for a helper's."""

    name: str
    node: int
    chunk: int
    offset: int
    size: int
    first: int
    last: int


class ArenaMap(msgspec.Struct, frozen=True):
    """A device's memory for this graph: its chunks' bytes, of which the first begins with `inputs`.

    What lives at the same time never overlaps.
    """

    device: str
    chunks: list[int]
    inputs: int
    lives: list[ArenaLife]


class GraphDone(Reply, frozen=True):
    """The graph of a step of `n_tokens` at the end of `n_cells`, on a model of `n_layer` layers.

    `nodes` has what the graph computes first, in order (as `cutaway plan --nodes` numbers it), then
    its leaves. `launches` are in the order of running, `sources` of one being launches, too. There
    are `steps` moments in the arenas' lives, in the last of which the outputs are read.
    """

    n_tokens: int
    n_cells: int
    n_layer: int
    nodes: list[GraphNode]
    splits: list[SplitNode]
    launches: list[LaunchNode]
    arenas: list[ArenaMap]
    steps: int


class DescribeGraph(Request[GraphDone], frozen=True):
    """The graph as it would run: of the open model as it is placed, or with a `path` of that file
    with these options, of which only the header is read and nothing is allocated.

    A step of `n_tokens`, or as many as the context holds, after which the context has `n_cells`
    tokens, by default these alone. Its shapes are padded as a plan's are.
    """

    beside: ClassVar[bool] = True

    path: str = ""
    options: EngineOptions = EngineOptions()
    n_tokens: int = 1
    n_cells: int | None = None
