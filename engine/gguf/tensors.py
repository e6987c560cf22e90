"""The tensor infos of a header: names, types, shapes and places, checked against the file."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import NamedTuple

from engine.errors import BadFile
from engine.gguf.cursor import Cursor
from engine.gguf.formats import FORMATS, UNREADABLE, Format

LONGEST_NAME = 1024  # ggml stops at 63
MAX_DIMS = 4
MAX_ELEMENTS = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor's name, type and place.

    `shape` is in ggml's order, dim 0 fastest, padded by 1. `file` is the index of the part that
    holds the data, `offset` where it begins in that file, in bytes.
    """

    name: str
    fmt: Format
    shape: tuple[int, int, int, int]
    n_dims: int
    file: int
    offset: int
    nbytes: int

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def rows(self) -> int:
        """Number of rows of `shape[0]` elements."""
        return prod(self.shape[1:])

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return self.fmt.row_bytes(self.shape[0])


class RawInfo(NamedTuple):
    """A tensor info as it stands in the file; the offset counts from the start of the data."""

    name: str
    dims: tuple[int, ...]
    type_id: int
    offset: int


def read_infos(cursor: Cursor, count: int) -> list[RawInfo]:
    """`count` infos. BadFile for a name that comes twice and for dimensions that cannot be."""
    infos: dict[str, RawInfo] = {}
    for _ in range(count):
        name = cursor.name("tensor", LONGEST_NAME)
        if name in infos:
            raise cursor.fail(f"has the tensor {name!r} twice")
        infos[name] = _read_info(cursor, name)
    return list(infos.values())


def _read_info(cursor: Cursor, name: str) -> RawInfo:
    what = f"the description of tensor {name!r}"
    n_dims = cursor.integer("I", what)
    if n_dims > MAX_DIMS:
        raise cursor.fail(f"tensor {name!r} has {n_dims} dimensions; at most {MAX_DIMS}")
    dims = tuple(cursor.integer("Q", what) for _ in range(n_dims))
    if not all(dims) or prod(dims) > MAX_ELEMENTS:
        raise cursor.fail(f"tensor {name!r} has the impossible shape {list(dims)}")
    return RawInfo(name, dims, cursor.integer("I", what), cursor.integer("Q", what))


def place(
    path: str, infos: Sequence[RawInfo], part: int, start: int, alignment: int, size: int
) -> tuple[TensorInfo, ...]:
    """The tensors of a file of `size` bytes whose data begins at `start`.

    BadFile for types that ggml does not have or that cannot be decoded, rows that are not whole
    blocks, and data that is misaligned, beyond the end of the file or shared by two tensors.
    """
    _check_types(path, infos)
    tensors = tuple(_place(path, info, part, start, alignment) for info in infos)
    ordered = sorted(tensors, key=lambda tensor: tensor.offset)
    for tensor, following in pairwise(ordered):
        if tensor.offset + tensor.nbytes > following.offset:
            raise BadFile(path, f"tensors {tensor.name!r} and {following.name!r} overlap")
    beyond = [tensor for tensor in ordered if tensor.offset + tensor.nbytes > size]
    if beyond:
        end = beyond[-1].offset + beyond[-1].nbytes
        raise BadFile(
            path,
            f"incomplete: {size} of {end} bytes are there, cut off: {len(beyond)} tensors "
            f"(first: {beyond[0].name!r}); download it again",
        )
    return tensors


def _place(path: str, info: RawInfo, part: int, start: int, alignment: int) -> TensorInfo:
    fmt = FORMATS[info.type_id]
    ne0, ne1, ne2, ne3 = info.dims + (1,) * (MAX_DIMS - len(info.dims))
    if ne0 % fmt.block:
        raise BadFile(
            path, f"tensor {info.name!r}: rows of {ne0} are not whole blocks of {fmt.block} ({fmt})"
        )
    if info.offset % alignment:
        raise BadFile(
            path, f"tensor {info.name!r}: offset {info.offset} is not a multiple of {alignment}"
        )
    nbytes = fmt.row_bytes(ne0) * ne1 * ne2 * ne3
    shape = (ne0, ne1, ne2, ne3)
    return TensorInfo(info.name, fmt, shape, len(info.dims), part, start + info.offset, nbytes)


def _check_types(path: str, infos: Sequence[RawInfo]) -> None:
    unknown: dict[str, list[str]] = defaultdict(list)
    unreadable: dict[str, list[str]] = defaultdict(list)
    for info in infos:
        fmt = FORMATS.get(info.type_id)
        if fmt is None:
            unknown[str(info.type_id)].append(info.name)
        elif fmt in UNREADABLE:
            unreadable[fmt.name].append(info.name)
    if unknown:
        problem = f"unknown tensor type {_users(unknown)}"
        raise BadFile(path, f"{problem}; the file may be newer than this program")
    if unreadable:
        problem = f"tensor type {_users(unreadable)} cannot be read"
        raise BadFile(path, f"{problem}; convert the model to another one, Q8_0 for example")


def _users(types: Mapping[str, Sequence[str]]) -> str:
    """Types with the tensors that use them; the first few of both."""
    return "; ".join(
        f"{kind} ({', '.join(map(repr, names[:3]))}{', ...' if names[3:] else ''})"
        for kind, names in list(types.items())[:4]
    )
