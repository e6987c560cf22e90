"""Typed access to a file's key-value pairs."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeVar, cast

from engine.errors import BadFile
from engine.gguf.values import FLOATS, INTEGERS, Array, ValueType

T = TypeVar("T", bool, int, float, str, Array)
S = TypeVar("S", bool, int, float, str)
D = TypeVar("D")

Value = bool | int | float | str | Array


class Required:
    """The default of keys that must be there."""


REQUIRED: Final = Required()

# Namespaces that do not belong to the architecture.
_COMMON = ("general.", "tokenizer.", "split.")

_ACCEPTED: dict[type, tuple[tuple[ValueType, ...], str]] = {
    bool: ((ValueType.BOOL,), "bool"),
    int: (INTEGERS, "an integer"),
    float: ((*FLOATS, *INTEGERS), "a number"),
    str: ((ValueType.STRING,), "string"),
    Array: ((ValueType.ARRAY,), "array"),
}


@dataclass(frozen=True)
class MetadataEntry:
    """A value and its type in the file; strings as their undecoded bytes."""

    type: ValueType
    raw: bool | int | float | memoryview | Array

    @property
    def value(self) -> Value:
        """The value; bytes of a string that are not UTF-8 become U+FFFD."""
        return str(self.raw, "utf-8", "replace") if isinstance(self.raw, memoryview) else self.raw


class Metadata:
    """The key-value pairs of a file, by exact key or by the name within the architecture."""

    def __init__(self, path: str, entries: Mapping[str, MetadataEntry]) -> None:
        self.path = path
        self._entries = entries

    def __contains__(self, key: object) -> bool:
        return key in self._entries or (isinstance(key, str) and self.full(key) in self._entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, key: str) -> MetadataEntry:
        """The pair of exactly that key; KeyError where there is none."""
        return self._entries[key]

    @property
    def architecture(self) -> str:
        """`general.architecture`; BadFile where it is missing or not a plain word."""
        name = self._typed("general.architecture", str, REQUIRED)
        if not re.fullmatch(r"[\w-]{1,64}", name, re.ASCII):
            raise BadFile(self.path, f"'general.architecture' is {name[:64]!r}; expected one word")
        return name

    def full(self, key: str) -> str:
        """`key` as it stands in the file: `block_count` is `llama.block_count` in a llama file."""
        if key.startswith(_COMMON) or key in self._entries:
            return key
        return f"{self.architecture}.{key}"

    def get(self, key: str, type: type[T], default: D | Required = REQUIRED) -> T | D:
        """The value under `key`, full or without the architecture's prefix.

        An int is fine for a float, and a float without a fraction for an int, as early files of
        Gemma 3n have one. BadFile where the type is another, or where the key is missing and there
        is no default.
        """
        return self._typed(self.full(key), type, default)

    def each(
        self, key: str, type: type[S], count: int, default: S | Required = REQUIRED
    ) -> list[S]:
        """One value per layer: a scalar stands for `count` equal ones, an array has `count`. Arrays
        of truth values may hold 0 and 1.
        """
        key = self.full(key)
        entry = self._entries.get(key)
        if entry is None or not isinstance(entry.raw, Array):
            return [self._typed(key, type, default)] * count
        accepted, expected = _ACCEPTED[type]
        counted = type is bool and entry.raw.type in INTEGERS and len(entry.raw) == count
        flags = counted and {0, 1}.issuperset(entry.raw)
        if entry.raw.type not in accepted and not flags:
            self._wrong(key, f"array of {entry.raw.type}", f"{expected}, or an array of them")
        if len(entry.raw) != count:
            self._wrong(key, f"array of {len(entry.raw)}", f"{count} values, one per layer")
        convert: Any = type  # the types are accepted above; ints may become floats or truth values
        return [convert(value) for value in entry.raw]

    def _typed(self, key: str, type: type[T], default: D | Required) -> T | D:
        entry = self._entries.get(key)
        accepted, expected = _ACCEPTED[type]
        if entry is None:
            if isinstance(default, Required):
                raise BadFile(self.path, f"metadata has no {key!r}; expected {expected}")
            return default
        value: Any = entry.value
        if type is int and entry.type in FLOATS and value.is_integer():
            value = int(value)
        elif entry.type not in accepted:
            self._wrong(key, str(entry.type), expected)
        return cast(T, float(value) if type is float else value)

    def _wrong(self, key: str, found: str, expected: str) -> NoReturn:
        raise BadFile(self.path, f"metadata {key!r} is {found}; expected {expected}")
