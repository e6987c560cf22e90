"""Lazy tensors: a node of the graph, or a view of one. Nothing here computes.

Dimension order is ggml's: `shape[0]` is the fastest; strides and offsets are bytes; four
dimensions, the missing ones 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import prod
from types import MappingProxyType
from typing import Any

from engine.errors import ShapeError
from engine.gguf.formats import Format
from engine.graph.op import Op

Shape = tuple[int, int, int, int]
NO_ATTR: Mapping[str, Any] = MappingProxyType({})


class Role(StrEnum):
    """Where a leaf's bytes come from; nodes that are computed have none."""

    NONE = ""
    WEIGHT = "weight"
    CACHE = "cache"
    INPUT = "input"


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Tensor:
    """One node: its operation, type, shape and sources. Identity is the object itself.

    A view names the tensor that owns its bytes in `root` and where it starts in `offset`.
    `name` is a label for people (llama.cpp's names); several nodes may carry the same one.
    """

    op: Op
    fmt: Format
    shape: Shape
    strides: Shape
    src: tuple["Tensor | None", ...] = ()
    attr: Mapping[str, Any] = field(default_factory=lambda: NO_ATTR)
    role: Role = Role.NONE
    root: "Tensor | None" = None
    offset: int = 0
    name: str = ""
    arguments: object = None
    """What `src` and `attr` were taken from (`graph.node.Arguments`), where that is known."""

    def named(self, name: str, layer: int | None = None) -> "Tensor":
        """A copy labelled `name` or `name-layer`: for what was just made and nobody uses yet."""
        label = name if layer is None else f"{name}-{layer}"
        return Tensor(
            *(self.op, self.fmt, self.shape, self.strides, self.src, self.attr, self.role),
            *(self.root, self.offset, label, self.arguments),
        )

    def number(self, i: int) -> None:
        """A graph's label for what was left nameless: all that is ever written later, once."""
        assert not self.name, self
        object.__setattr__(self, "name", f"node_{i}")

    @property
    def storage(self) -> "Tensor":
        """The tensor that owns the bytes: itself unless it is a view."""
        return self.root or self

    @property
    def nelements(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes from the first element to the end of the last, by the strides."""
        if 0 in self.shape:
            return 0
        (a, b, c, d), (to_a, to_b, to_c, to_d) = self.shape, self.strides
        blocks = a // self.fmt.block
        steps = (blocks - 1) * to_a + (b - 1) * to_b + (c - 1) * to_c + (d - 1) * to_d
        return self.fmt.bytes + steps

    @property
    def is_contiguous(self) -> bool:
        """Packed in order, ignoring the strides of dimensions of one element."""
        packed = packed_strides(self.fmt, self.shape)
        if self.strides == packed:
            return True
        return all(
            n == 1 or have == want
            for n, have, want in zip(self.shape, self.strides, packed, strict=True)
        )

    @property
    def dims(self) -> tuple[int, ...]:
        """The shape without trailing ones, at least one entry."""
        n = 4
        while n > 1 and self.shape[n - 1] == 1:
            n -= 1
        return self.shape[:n]

    def reshape(self, *shape: int) -> "Tensor":
        """The same packed bytes in another shape; one -1 is inferred. Source must be contiguous."""
        wanted = _infer(self, shape)
        if wanted[0] % self.fmt.block:
            raise ShapeError("reshape", f"{self.fmt.name} rows cannot be cut", self.shape, wanted)
        if not self.is_contiguous:
            raise ShapeError("reshape", "the source is not contiguous", self.shape, wanted)
        return self._view(Op.RESHAPE, wanted, packed_strides(self.fmt, wanted), 0, "reshaped")

    def view(self, offset: int, shape: Sequence[int], strides: Sequence[int] = ()) -> "Tensor":
        """A window `offset` bytes in; `strides` of dimensions 1.. in bytes, packed where absent."""
        wanted = pad_shape("view", shape)
        steps = [self.fmt.bytes, *strides]
        if len(steps) == 1:
            steps.append(self.fmt.row_bytes(wanted[0]))
        while len(steps) < 4:
            steps.append(steps[-1] * wanted[len(steps) - 1])
        return self.window(offset, wanted, steps[:4])

    def window(self, offset: int, shape: Sequence[int], strides: Sequence[int]) -> "Tensor":
        """Like `view`, but all four strides are given: parts of permuted tensors need the first."""
        shape = pad_shape("view", shape)
        if shape[0] % self.fmt.block or any(n % self.fmt.bytes for n in (offset, *strides)):
            what = f"{self.fmt.name} elements cannot be cut at byte {offset} or by {list(strides)}"
            raise ShapeError("view", what, self.shape, shape)
        made = self._view(Op.VIEW, shape, _four(strides), offset, "view")
        if offset < 0 or offset + made.nbytes > self.nbytes:
            raise ShapeError("view", f"ends outside its source at byte {offset}", self.shape, shape)
        return made

    def permute(self, *axes: int) -> "Tensor":
        """Source axis i becomes axis `axes[i]` (the inverse of `numpy.transpose`'s argument)."""
        order = (*axes, *range(len(axes), 4))
        if sorted(order) != [0, 1, 2, 3]:
            raise ShapeError("permute", f"axes {axes} are not a permutation", self.shape)
        if self.fmt.block > 1 and order[0] != 0:
            raise ShapeError("permute", f"{self.fmt.name} rows cannot be cut", self.shape)
        shape, strides = [0] * 4, [0] * 4
        for i, axis in enumerate(order):
            shape[axis], strides[axis] = self.shape[i], self.strides[i]
        return self._view(Op.PERMUTE, _four(shape), _four(strides), 0, "permuted")

    def _view(self, op: Op, shape: Shape, strides: Shape, offset: int, how: str) -> "Tensor":
        return Tensor(
            op,
            self.fmt,
            shape,
            strides,
            (self,),
            root=self.storage,
            offset=self.offset + offset,
            name=f"{self.name} ({how})" if self.name else "",
        )

    def __repr__(self) -> str:
        return f"<{self.name or self.op} {self.fmt.name} {list(self.dims)}>"


def leaf(name: str, fmt: Format, shape: Sequence[int], role: Role) -> Tensor:
    """A tensor that no node computes: a weight, a cache or an input."""
    full = pad_shape(name, shape)
    if full[0] % fmt.block:
        raise ShapeError(
            name, f"rows of {full[0]} are not a multiple of {fmt.name}'s {fmt.block}", full
        )
    return Tensor(Op.NONE, fmt, full, packed_strides(fmt, full), role=role, name=name)


def packed_strides(fmt: Format, shape: Shape) -> Shape:
    """Strides in bytes of a packed tensor; dimension 0 steps by a block's bytes."""
    row = fmt.row_bytes(shape[0])
    return (fmt.bytes, row, row * shape[1], row * shape[1] * shape[2])


def pad_shape(what: str, shape: Sequence[int]) -> Shape:
    """`shape` filled up to four dimensions; every one must be at least 1."""
    if not 1 <= len(shape) <= 4:
        raise ShapeError(what, f"{len(shape)} dimensions; one to four are possible", shape)
    if min(shape) < 1:
        raise ShapeError(what, "a dimension is below 1", shape)
    return _four([*shape, 1, 1, 1])


def _four(values: Sequence[int]) -> Shape:
    return (values[0], values[1], values[2], values[3])


def _infer(source: Tensor, shape: Sequence[int]) -> Shape:
    if 0 in shape:
        raise ShapeError("reshape", "dimension cannot be zero", source.shape, shape)
    if list(shape).count(-1) > 1:
        raise ShapeError("reshape", "only one dimension can be inferred", source.shape, shape)
    if -1 in shape:
        rest = prod(n for n in shape if n != -1)
        if rest < 1 or source.nelements % rest:
            raise ShapeError("reshape", "cannot infer dimension", source.shape, shape)
        shape = [source.nelements // rest if n == -1 else n for n in shape]
    full = pad_shape("reshape", shape)
    if prod(full) != source.nelements:
        what = f"element counts of {source.name or 'the source'} and the result differ"
        raise ShapeError("reshape", what, source.shape, full)
    return full
