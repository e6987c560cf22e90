"""Helpers of all families' launches: argument types, item counts, readable views."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from engine.backends.opencl.launch import Args, DeviceTraits
from engine.device.backend import PLAIN, TypeOf
from engine.gguf.formats import BF16, F16, F32, FORMATS, I32, Q4_0, Q8_0, UNREADABLE, Format
from engine.graph.tensor import Shape, Tensor

Defines = Mapping[str, int | str]

TYPE_NAMES: Mapping[Format, str] = {F32: "f32", F16: "f16", BF16: "bf16", I32: "i32"}
"""The kernels' word for an element type."""

FLOATS = (F32, F16, BF16)

BLOCK_NAMES: Mapping[Format, str] = {Q8_0: "q8_0", Q4_0: "q4_0"}
"""Its word for the blocks that it reads and writes (blocks.cl)."""

ROW_NAMES: Mapping[Format, str] = {
    fmt: fmt.name.lower()
    for fmt in FORMATS.values()
    if fmt in FLOATS or (fmt.quantized and fmt not in UNREADABLE)
}
"""Its word for whatever rows it reads as floats (block_formats.cl)."""

BLOCK_WIDTH = 8
"""Elements of a block that are decoded at once."""


def ints(**values: int) -> Args:
    """Parameters of type int, by name."""
    return {name: np.int32(value) for name, value in values.items()}


def floats(**values: float) -> Args:
    """Parameters of type float, by name."""
    return {name: np.float32(value) for name, value in values.items()}


def longs(**values: int) -> Args:
    """Parameters of type long, by name."""
    return {name: np.int64(value) for name, value in values.items()}


def extents(name: str, counts: Iterable[int], first: int = 0) -> Args:
    """A tensor's sizes: ints `name0`, `name1`, ... from dimension `first` on."""
    return {f"{name}{i}": np.int32(count) for i, count in enumerate(counts, first)}


def strides(name: str, steps: Iterable[int], first: int = 0) -> Args:
    """Its strides in bytes: longs `name0`, `name1`, ... from dimension `first` on."""
    return {f"{name}{i}": np.int64(step) for i, step in enumerate(steps, first)}


def vector_width(traits: DeviceTraits) -> int:
    """Elements an item takes at once: a CPU's vector, or what one GPU lane loads well."""
    return 16 if traits.items_take_vectors else 4


def team_size(traits: DeviceTraits) -> int:
    """Items that make one row together: one on a CPU, which has vectors for that."""
    if traits.items_take_vectors:
        return 1
    size = traits.tuned.row_team
    while size > traits.max_work_group:
        size //= 2
    return size


def items(count: int, local: int) -> tuple[tuple[int], tuple[int]]:
    """Global and local size for at least `count` items."""
    return (-(-count // local) * local,), (local,)


def rows_per_group(rows: int, traits: DeviceTraits) -> int:
    """Rows a team makes one after the other: on CPUs enough that groups are few."""
    return max(1, rows // (8 * traits.compute_units)) if traits.items_take_vectors else 1


class RowTeams(NamedTuple):
    """How teams cover rows of which they make one after the other, `per_group` of them."""

    per_group: int
    size: tuple[int]
    local: tuple[int]
    defines: Defines


def row_teams(rows: int, traits: DeviceTraits) -> RowTeams:
    """A group of items for some rows; each row is made by all of its items together."""
    team, per_group = team_size(traits), rows_per_group(rows, traits)
    size, local = items(-(-rows // per_group) * team, team)
    return RowTeams(per_group, size, local, {"W": vector_width(traits), "LOCAL": team})


class Cover(NamedTuple):
    """How items cover rows of elements: EACH_ROW_OF_ITEM in common.cl, with its defines."""

    per_item: int
    size: tuple[int]
    local: tuple[int]
    defines: Defines


def cover(n0: int, rows: int, traits: DeviceTraits, block: int = 1, width: int = 0) -> Cover:
    """Items for `rows` rows of `n0` elements, or blocks of so many elements.

    An item of a CPU takes thousands of elements, elsewhere a vector, of `width` elements if given.
    """
    width, local = width or vector_width(traits), team_size(traits)
    most = traits.tuned.elements // block
    run = max(1, most // width) if traits.items_take_vectors else 1
    per_item = max(1, most // n0) if traits.items_take_vectors else 1
    count = -(-n0 // (run * width)) * -(-rows // per_item)
    size, group = items(count, local)
    return Cover(per_item, size, group, {"W": width, "RUN": run, "LOCAL": local})


def rows_in(shape: Shape) -> int:
    """How many rows a tensor has."""
    return shape[1] * shape[2] * shape[3]


def row_shape(shape: Shape) -> Args:
    """n0, n1, n2 and the number of rows, as kernels take a shape."""
    return ints(n0=shape[0], n1=shape[1], n2=shape[2], rows=rows_in(shape))


def collapse(*tensors: Tensor) -> tuple[Shape, list[Shape]]:
    """One shape for tensors of the same shape, dimensions joined where all of them allow it.

    Returns it with the strides of each tensor; a packed tensor becomes a single row.
    """
    shape = [tensors[0].shape[0]]
    steps = [[t.strides[0]] for t in tensors]
    for axis in range(1, 4):
        n = tensors[0].shape[axis]
        nexts = [t.strides[axis] for t in tensors]
        if n == 1:
            continue
        if all(step == have[-1] * shape[-1] for step, have in zip(nexts, steps, strict=True)):
            shape[-1] *= n
        else:
            shape.append(n)
            for step, have in zip(nexts, steps, strict=True):
                have.append(step)
    return _four(shape, 1), [_four(have, 0) for have in steps]


def _four(values: Sequence[int], filler: int) -> Shape:
    padded = [*values, filler, filler, filler]
    return padded[0], padded[1], padded[2], padded[3]


def readable(node: Tensor, type_of: TypeOf) -> bool:
    """True if every operand lies as in the file: only matmul reads the device's own layouts."""
    kinds = [type_of(source.storage) for source in node.src if source is not None]
    return all(kind is None or kind.layout == PLAIN for kind in kinds)


def are(formats: Collection[Format], *tensors: Tensor | None) -> bool:
    """True if those of the tensors that are there have one of these types."""
    return all(tensor is None or tensor.fmt in formats for tensor in tensors)


def gapless(*tensors: Tensor | None) -> bool:
    """True if elements or blocks lie side by side in the rows of those that are there."""
    return all(t is None or t.strides[0] == t.fmt.bytes for t in tensors)


WIDE_LOAD = 16
"""Bytes that a lane reads at once."""


def aligned(traits: DeviceTraits, *tensors: Tensor | None) -> Defines:
    """Build option ALIGNED of common.cl for lanes, where all rows begin at whole wide loads."""
    some = (t for t in tensors if t is not None)
    places = [n for t in some for n in (t.offset, *t.strides[1:])]
    whole = not any(n % WIDE_LOAD for n in places)
    return {"ALIGNED": 1} if whole and not traits.items_take_vectors else {}
