"""Nodes, and what each operation is computed from, by name."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Self

from engine.gguf.formats import Format
from engine.graph.op import Op
from engine.graph.tensor import Tensor, packed_strides, pad_shape


@dataclass(frozen=True)
class Arguments:
    """The arguments of an operation's nodes.

    A subclass names their sources, in order, and behind `KW_ONLY` their attributes. Who makes a
    node, who lowers it and who computes it all read the same names:

        @dataclass(frozen=True)
        class Rope(Arguments):
            x: Tensor
            table: Tensor
            _: KW_ONLY
            neox: bool

        turned = node(Op.ROPE, F32, x.shape, Rope(x, table, neox=True))
        Rope.of(turned).table
    """

    @classmethod
    def of(cls, node: Tensor) -> Self:
        """The arguments of a node that was made with this class, put together again where its
        sources have been replaced.
        """
        if type(node.arguments) is cls:
            return node.arguments
        make: Callable[..., Self] = cls
        return make(*node.src, **node.attr)

    @classmethod
    def position(cls, name: str) -> int:
        """Where the source of that name stands in `Tensor.src`."""
        return _names(cls)[0].index(name)

    @property
    def sources(self) -> tuple[Tensor | None, ...]:
        """The tensors of `Tensor.src`; optional ones may be None."""
        return tuple([getattr(self, name) for name in _names(type(self))[0]])

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The values of `Tensor.attr`."""
        return MappingProxyType({name: getattr(self, name) for name in _names(type(self))[1]})


def _names(cls: type[Arguments]) -> tuple[list[str], list[str]]:
    """Return the names of sources and of attributes: thousands of nodes are made of few classes."""
    if cls not in _known:
        found = fields(cls)
        _known[cls] = [f.name for f in found if not f.kw_only], [f.name for f in found if f.kw_only]
    return _known[cls]


_known: dict[type[Arguments], tuple[list[str], list[str]]] = {}


@dataclass(frozen=True)
class Unary(Arguments):
    """One source and nothing else."""

    x: Tensor


def node(op: Op, fmt: Format, shape: Sequence[int], arguments: Arguments) -> Tensor:
    """A computed tensor of its own, packed."""
    full = pad_shape(op, shape)
    strides = packed_strides(fmt, full)
    sources, attributes = arguments.sources, arguments.attributes
    return Tensor(op, fmt, full, strides, sources, attributes, arguments=arguments)


def writing(op: Op, target: Tensor, arguments: Arguments, name: str = "") -> Tensor:
    """A node that writes where `target` lies: its result is a view of all of it."""
    return Tensor(
        op,
        target.fmt,
        target.shape,
        target.strides,
        arguments.sources,
        arguments.attributes,
        root=target.storage,
        offset=target.offset,
        name=name,
        arguments=arguments,
    )
