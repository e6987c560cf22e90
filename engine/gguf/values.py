"""Metadata values as a file holds them: scalar types, and arrays decoded when requested."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from engine.errors import BadFile


class ValueType(IntEnum):
    """The value types of the GGUF specification, by their number in a file."""

    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    UINT64 = 10
    INT64 = 11
    FLOAT64 = 12

    def __str__(self) -> str:
        return self.name.lower()


# The letter of `struct` (and the NumPy type) of each scalar. A boolean is a byte, nonzero is true.
CODES = {
    ValueType.UINT8: ("B", "u1"),
    ValueType.INT8: ("b", "i1"),
    ValueType.UINT16: ("H", "u2"),
    ValueType.INT16: ("h", "i2"),
    ValueType.UINT32: ("I", "u4"),
    ValueType.INT32: ("i", "i4"),
    ValueType.FLOAT32: ("f", "f4"),
    ValueType.BOOL: ("?", "u1"),
    ValueType.UINT64: ("Q", "u8"),
    ValueType.INT64: ("q", "i8"),
    ValueType.FLOAT64: ("d", "f8"),
}
FLOATS = (ValueType.FLOAT32, ValueType.FLOAT64)
INTEGERS = tuple(t for t in CODES if t not in FLOATS and t != ValueType.BOOL)


@dataclass(frozen=True, eq=False)
class Array:
    """An array value, left as it is in the file until a method requests its elements.

    `type` is that of the elements, `data` spans them in the file, `order` is "<" or ">". For
    strings `starts` shows where in `data` each one's length field begins; for an array of arrays
    `items` are the elements. `key` names the array in errors.
    """

    path: str
    key: str
    type: ValueType
    length: int
    data: memoryview = field(repr=False)
    order: str = field(repr=False)
    starts: "array[int]" = field(default_factory=lambda: array("q"), repr=False)
    items: "tuple[Array, ...]" = field(default=(), repr=False)

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        """One value, or a list of values: bool, int, float, str or Array."""
        chosen = range(self.length)[index]
        return self._values([chosen])[0] if isinstance(chosen, int) else self._values(chosen)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values(range(self.length)))

    def strings(self) -> list[str]:
        """The strings; bytes that are not UTF-8 become U+FFFD. BadFile for another type."""
        data, bounds = self.joined()
        return [data[a:b].decode("utf-8", "replace") for a, b in pairwise(bounds.tolist())]

    def joined(self) -> tuple[bytes, npt.NDArray[np.int64]]:
        """The strings as stored, one after the other, and where each begins; last where all end.

        BadFile for another type.
        """
        if self.type != ValueType.STRING:
            raise self._wrong("strings")
        data, starts = np.asarray(self.data), np.asarray(self.starts)
        kept = np.ones(data.size, np.bool_)
        for i in range(8):  # but for the length fields
            kept[starts + i] = False
        bounds = np.append(starts, data.size) - 8 * np.arange(self.length + 1)
        return data[kept].tobytes(), bounds

    def numpy(self) -> npt.NDArray[Any]:
        """The numbers, in the machine's byte order; booleans as bool. BadFile for another type."""
        if self.type not in CODES:
            raise self._wrong("numbers")
        numbers: npt.NDArray[Any] = np.frombuffer(self.data, self.order + CODES[self.type][1])
        if self.type == ValueType.BOOL:
            return numbers.astype(np.bool_)
        return numbers.astype(numbers.dtype.newbyteorder("="))

    def ints(self) -> npt.NDArray[Any]:
        """Like `numpy`; BadFile unless the elements are integers."""
        if self.type not in INTEGERS:
            raise self._wrong("integers")
        return self.numpy()

    def _values(self, chosen: range | list[int]) -> list[Any]:
        if self.type == ValueType.ARRAY:
            return [self.items[i] for i in chosen]
        if self.type == ValueType.STRING:
            return [self._string(i) for i in chosen]
        numbers: list[Any] = self.numpy()[np.array(chosen, dtype=np.intp)].tolist()
        return numbers

    def _string(self, i: int) -> str:
        end = self.starts[i + 1] if i + 1 < self.length else len(self.data)
        return str(self.data[self.starts[i] + 8 : end], "utf-8", "replace")

    def _wrong(self, expected: str) -> BadFile:
        found = f"{self.key!r} is an array of {self.type}"
        return BadFile(self.path, f"{found}; expected an array of {expected}")
