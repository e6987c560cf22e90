"""Metadata of a file to a dataclass of hyperparameters, each checked against its range.

A field `n_embd: Annotated[int, Meta("embedding_length", WIDTH)]` is read from that key within the
architecture; a field with a default may be absent, and a tuple is an array. What a file says is
never trusted further than its range, so that nothing behind this divides by zero or walks a range
without end.

Some keys hold a number, or an array with one for each layer. A `tuple[int, ...]` marked `by_layer`
has that many values, or a single one for all (`of_layer`); `tuple[bool, ...] | int` is whichever
the file has.
"""

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from engine.errors import BadFile
from engine.gguf import GGUFFile
from engine.gguf.values import Array, ValueType

T = TypeVar("T")


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`; with `or_zero` also 0, which the format writes for "none"."""

    low: float
    high: float
    or_zero: bool = False

    def has(self, value: object) -> bool:
        """NaN is in no range."""
        if not isinstance(value, int | float):
            return False
        return self.low <= value <= self.high or (self.or_zero and value == 0)

    def __str__(self) -> str:
        return f"{'0, or ' if self.or_zero else ''}{_number(self.low)} to {_number(self.high)}"


@dataclass(frozen=True)
class OneOf:
    """Some words."""

    words: tuple[str, ...]

    def has(self, value: object) -> bool:
        return value in self.words

    def __str__(self) -> str:
        return f"one of {', '.join(self.words)}"


COUNT = Range(1, 1 << 16)
"""Of layers, heads, experts."""
WIDTH = Range(1, 1 << 24)
"""Of a vector: elements."""
TOKENS = Range(1, (1 << 31) - 1)
"""Of a context or a window."""
EPSILON = Range(1e-15, 1)
"""What a norm adds."""


BLOCK_COUNT = "block_count"
NEXTN_COUNT = "nextn_predict_layers"
MOST_VALUES = 4096
"""Of an array whose length a field leaves open."""


@dataclass(frozen=True)
class Meta:
    """A metadata key, without the architecture, and what its value may be, or each of an array's.

    The keys of `alt` are tried in turn where `key` is absent. `by_layer`: a number stands for an
    array of it, and an array has one value for each of `block_count` layers, or for all but those
    that predict further tokens, which take the last one's.
    """

    key: str
    allowed: Range | OneOf
    alt: tuple[str, ...] = ()
    by_layer: bool = False


def of_layer(values: tuple[T, ...], i: int) -> T:
    """Layer i's of values by layer."""
    return values[i if len(values) > 1 else 0]


def read_params(kind: type[T], file: GGUFFile) -> T:
    """The params dataclass filled from metadata; defaults where a key is absent.

    Raises one `BadFile` for a missing or mistyped key, or for all values that are out of range.
    """
    values: dict[str, Any] = {}
    wrong: list[str] = []
    for name, base, meta, optional in _declared(kind):
        key = next((k for k in (meta.key, *meta.alt) if k in file.metadata), meta.key)
        if optional and key not in file.metadata:
            continue
        value = values[name] = _value(file, key, _plain(base, file, key), meta.by_layer)
        outside = [
            v for v in (value if isinstance(value, tuple) else (value,)) if not meta.allowed.has(v)
        ]
        if outside:
            shown = repr(outside[0][:64]) if isinstance(outside[0], str) else outside[0]
            wrong.append(f"{file.metadata.full(key)!r} is {shown}; expected {meta.allowed}")
    if wrong:
        raise BadFile(file.paths[0], f"metadata {'; '.join(wrong)}")
    return kind(**values)


def _value(file: GGUFFile, key: str, kind: Any, by_layer: bool) -> object:
    """A scalar, or for `tuple[int, int]` or `tuple[int, ...]` an array's elements."""
    if get_origin(kind) is not tuple:
        return file.metadata.get(key, kind)
    element, *rest = get_args(kind)
    if by_layer:
        if not _is_array(file, key):
            return tuple(file.metadata.each(key, element, 1))
        blocks = file.metadata.get(BLOCK_COUNT, int)
        nextn, found = file.metadata.get(NEXTN_COUNT, int, 0), len(file.metadata.get(key, Array))
        lacking = nextn if 0 < nextn <= found == blocks - nextn else 0
        values = file.metadata.each(key, element, blocks - lacking)
        return (*values, *values[-1:] * lacking)
    length, is_open = len(file.metadata.get(key, Array)), Ellipsis in rest
    if length > MOST_VALUES if is_open else length != len(rest) + 1:
        expected = f"at most {MOST_VALUES}" if is_open else str(len(rest) + 1)
        problem = f"metadata {file.metadata.full(key)!r} has {length} values; expected {expected}"
        raise BadFile(file.paths[0], problem)
    return tuple(file.metadata.each(key, element, length))


def _declared(kind: type) -> Iterator[tuple[str, Any, Meta, bool]]:
    """Name, type, marker of each field that comes from metadata, and whether it may be absent."""
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        hint = hints[field.name]
        if get_origin(hint) is Annotated:
            base, *extra = get_args(hint)
            meta = next((e for e in extra if isinstance(e, Meta)), None)
            if meta is not None:
                yield field.name, base, meta, field.default is not MISSING


def _plain(kind: Any, file: GGUFFile, key: str) -> Any:
    """Without its `None`; of an array and a scalar the one that the file has."""
    options = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    left = [option for option in options if option is not NoneType]
    wanted = _is_array(file, key)
    return next((o for o in left if (get_origin(o) is tuple) == wanted), left[0])


def _is_array(file: GGUFFile, key: str) -> bool:
    full = file.metadata.full(key)
    return full in file.metadata and file.metadata[full].type == ValueType.ARRAY


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:g}"
