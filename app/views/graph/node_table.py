"""The graph as a table: one row a node, in the order of running, or one a launch."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from app.language import tr
from app.state.graph.blocks import GraphIndex, is_leaf, key_of, shape_text, title_of
from app.state.graph.overlay import NodeError, launch_errors
from app.widgets.lists.rows import Column
from app.widgets.numbers import UNKNOWN, grouped, kib, milliseconds, small
from engine.protocol import GraphNode, LaunchNode


class NodeRow(NamedTuple):
    """A node, its number, its block's title, what its launch took, and the error of its result."""

    number: int
    node: GraphNode
    block: str
    kernel: str
    ns: int | None
    error: NodeError | None


class LaunchRow(NamedTuple):
    """A launch, its number, what it computes, and what it took."""

    number: int
    launch: LaunchNode
    nodes: str
    ns: int | None
    error: NodeError | None


T = TypeVar("T", NodeRow, LaunchRow)


def _ms(ns: int | None) -> str:
    return UNKNOWN if ns is None else milliseconds(ns)


def _error_columns(kind: type[T]) -> tuple[Column[T], Column[T]]:
    """Of results alone: what lies between two results has no error of its own."""

    def text(row: T) -> str:
        error = row.error
        if error is None or not error.own:
            return UNKNOWN
        return f"{small(error.row.error)}{' !' if error.deviates else ''}"

    def allowed(row: T) -> str:
        return small(row.error.row.most) if row.error is not None and row.error.own else UNKNOWN

    def size(row: T) -> float:
        return row.error.row.error if row.error is not None and row.error.own else -1.0

    def tone(row: T) -> str:
        return "bad" if row.error is not None and row.error.own and row.error.deviates else ""

    return (
        Column[T]("NMSE", text, size, right=True, tone=tone),
        Column[T](tr("Allowed"), allowed, right=True, quiet=True),
    )


CAUSES = {
    "usr": tr("pinned by you"),
    "1.dst": tr("stored on this device"),
    "1.vsrc": tr("writes to a tensor on this device"),
    "1.wgt": tr("its weight is on this device"),
    "1.src": tr("its cache is on this device"),
    "2.src": tr("same device as its input"),
    "2.use": tr("same device as its reader"),
    "3.upg": tr("its weight is in host memory"),
    "3.best": tr("free choice: the fastest device"),
    "3.sup": tr("not supported on the preferred device"),
}


def cause_words(cause: str) -> str:
    """Why an operation runs where it does, from the scheduler's code (`1.wgt0`)."""
    return CAUSES.get(cause, CAUSES.get(re.sub(r"\d+$", "", cause), cause))


NODES = (
    Column[NodeRow]("#", lambda r: str(r.number), lambda r: r.number, right=True),
    Column[NodeRow](tr("Name"), lambda r: key_of(r.node), mono=True, whole=True),
    Column[NodeRow](tr("Operation"), lambda r: r.node.op),
    Column[NodeRow](tr("Device"), lambda r: r.node.device, mono=True),
    Column[NodeRow](tr("Shape"), lambda r: shape_text(r.node), right=True),
    Column[NodeRow](tr("Type"), lambda r: r.node.dtype),
    Column[NodeRow]("KiB", lambda r: kib(r.node.size), lambda r: r.node.size, right=True),
    Column[NodeRow](tr("Block"), lambda r: r.block, quiet=True),
    Column[NodeRow](tr("Kernel"), lambda r: r.kernel, quiet=True, mono=True),
    Column[NodeRow](
        "ms",
        lambda r: UNKNOWN if r.ns is None else milliseconds(r.ns),
        lambda r: r.ns or 0,
        right=True,
    ),
    *_error_columns(NodeRow),
    Column[NodeRow](tr("Reason"), lambda r: cause_words(r.node.cause), whole=True),
    Column[NodeRow](tr("Why"), lambda r: r.node.why, quiet=True),
)
LAUNCHES = (
    Column[LaunchRow]("#", lambda r: str(r.number), lambda r: r.number, right=True),
    Column[LaunchRow](tr("Operation"), lambda r: r.launch.op),
    Column[LaunchRow](tr("Kernels"), lambda r: ", ".join(r.launch.kernels), mono=True, whole=True),
    Column[LaunchRow](tr("Device"), lambda r: r.launch.device, mono=True),
    Column[LaunchRow]("KiB", lambda r: kib(r.launch.bytes), lambda r: r.launch.bytes, right=True),
    Column[LaunchRow](
        "FLOP", lambda r: grouped(r.launch.flops), lambda r: r.launch.flops, right=True
    ),
    Column[LaunchRow](
        "ms",
        lambda r: UNKNOWN if r.ns is None else milliseconds(r.ns),
        lambda r: r.ns or 0,
        right=True,
    ),
    *_error_columns(LaunchRow),
    Column[LaunchRow](tr("Computes"), lambda r: r.nodes, quiet=True),
)


def node_rows(
    index: GraphIndex, ns: Mapping[int, int], errors: Mapping[int, NodeError]
) -> Sequence[NodeRow]:
    """Of all that is computed, and of views."""
    graph = index.graph
    rows = []
    for number, node in enumerate(graph.nodes):
        if not is_leaf(node):
            launch = graph.launches[node.launch] if node.launch >= 0 else None
            kernel = "" if launch is None else ", ".join(launch.kernels)
            block = index.blocks[index.block_of[number]].title
            rows.append(
                NodeRow(number, node, block, kernel, ns.get(node.launch), errors.get(number))
            )
    return rows


def launch_rows(
    index: GraphIndex, ns: Mapping[int, int], errors: Mapping[int, NodeError]
) -> Sequence[LaunchRow]:
    """Of all launches, in order."""
    nodes, found = index.graph.nodes, launch_errors(index, errors)
    rows = []
    for i, launch in enumerate(index.graph.launches):
        computes = ", ".join(title_of(nodes[n]) for n in launch.nodes)
        rows.append(LaunchRow(i, launch, computes, ns.get(i), found.get(i)))
    return rows
