"""The key-value pairs of a header, read without decoding what may never be asked for."""

from collections.abc import Iterator

from engine.gguf.cursor import Cursor
from engine.gguf.metadata import MetadataEntry
from engine.gguf.values import CODES, Array, ValueType

LONGEST_KEY = (1 << 16) - 1  # by the specification
MAX_STRINGS = 1 << 23  # in all arrays of a file; known vocabularies have below 2^20
MAX_NESTED = 1 << 16  # arrays within arrays, likewise
MAX_DEPTH = 4


class PairReader:
    """Reads the pairs from a cursor, and counts what all of them together may still take."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.strings_left = MAX_STRINGS
        self.nested_left = MAX_NESTED

    def read(self, count: int) -> dict[str, MetadataEntry]:
        """`count` pairs by key. BadFile for a key that comes twice."""
        entries: dict[str, MetadataEntry] = {}
        for key, entry in self.each(count):
            if key in entries:
                raise self.cursor.fail(f"metadata has the key {key!r} twice")
            entries[key] = entry
        return entries

    def each(self, count: int) -> Iterator[tuple[str, MetadataEntry]]:
        """`count` pairs in the file's order, each read when it is asked for."""
        for _ in range(count):
            key = self.cursor.name("metadata key", LONGEST_KEY)
            yield key, self._entry(key)

    def _entry(self, key: str) -> MetadataEntry:
        type = self._type(key)
        if type == ValueType.STRING:
            return MetadataEntry(type, self.cursor.string(f"metadata {key!r}"))
        if type == ValueType.ARRAY:
            return MetadataEntry(type, self._array(key, depth=1))
        return MetadataEntry(type, self.cursor.number(CODES[type][0], f"metadata {key!r}"))

    def _type(self, key: str) -> ValueType:
        number = self.cursor.integer("I", f"the type of metadata {key!r}")
        try:
            return ValueType(number)
        except ValueError:
            raise self.cursor.fail(f"metadata {key!r} has the unknown type {number}") from None

    def _array(self, key: str, depth: int) -> Array:
        cursor, what = self.cursor, f"elements in metadata {key!r}"
        if depth > MAX_DEPTH:
            raise cursor.fail(f"metadata {key!r} nests arrays deeper than {MAX_DEPTH}")
        type = self._type(key)
        length = cursor.integer("Q", f"the length of metadata {key!r}")
        if type in CODES:
            size = length * int(CODES[type][1][1])
            data = cursor.span(size, f"{length} {what}")
            return Array(cursor.path, key, type, length, data, cursor.order)
        begin = cursor.pos
        if type == ValueType.STRING:
            cursor.check_count(length, what, smallest=8, most=self.strings_left)
            self.strings_left -= length
            starts = cursor.string_starts(length, what)
            data = cursor.data[begin : cursor.pos]
            return Array(cursor.path, key, type, length, data, cursor.order, starts)
        cursor.check_count(length, what, smallest=12, most=self.nested_left)
        self.nested_left -= length
        items = tuple(self._array(f"{key}[{i}]", depth + 1) for i in range(length))
        data = cursor.data[begin : cursor.pos]
        return Array(cursor.path, key, type, length, data, cursor.order, items=items)
