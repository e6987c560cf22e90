"""One file's header, checked before use; key-value pairs are read without decoding what may never
be needed.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from engine.gguf.cursor import Cursor
from engine.gguf.metadata import Metadata, MetadataEntry
from engine.gguf.tensors import TensorInfo, place, read_infos
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
        """`count` pairs in the file's order, each read when it is requested."""
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


MAGIC = b"GGUF"
VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
MAX_PAIRS = 1 << 16
MAX_TENSORS = 1 << 17


@dataclass(frozen=True)
class FileHeader:
    """The header of one file. `order` is "<" or ">"."""

    version: int
    order: str
    alignment: int
    metadata: Metadata
    tensors: tuple[TensorInfo, ...]


def read_header(path: str, data: memoryview, part: int = 0, size: int | None = None) -> FileHeader:
    """The header of a mapped file that is number `part` among its split files; `size` is the whole
    file's where `data` is only its beginning.

    BadFile for everything that does not hold; no count or length is trusted with memory.
    """
    cursor = Cursor(path, data)
    version, n_tensors, n_pairs = _read_counts(cursor)
    metadata = Metadata(path, PairReader(cursor).read(n_pairs))
    infos = read_infos(cursor, n_tensors)
    alignment = _alignment(cursor, metadata)
    start = -(-cursor.pos // alignment) * alignment
    tensors = place(path, infos, part, start, alignment, len(data) if size is None else size)
    return FileHeader(version, cursor.order, alignment, metadata, tensors)


def read_architecture(path: str, data: memoryview) -> str | None:
    """`general.architecture` of a mapped file, None where it is no text. It is the first pair of
    most files, and no pair behind it is read. BadFile for what does not hold up to there.
    """
    cursor = Cursor(path, data)
    _, _, n_pairs = _read_counts(cursor)
    for key, entry in PairReader(cursor).each(n_pairs):
        if key == "general.architecture":
            return entry.value if isinstance(entry.value, str) else None
    return None


def _read_counts(cursor: Cursor) -> tuple[int, int, int]:
    """The version, and how many tensors and pairs there are."""
    version = _read_version(cursor)
    n_tensors = cursor.count("tensors", smallest=24, most=MAX_TENSORS)
    return version, n_tensors, cursor.count("metadata pairs", smallest=13, most=MAX_PAIRS)


def _read_version(cursor: Cursor) -> int:
    magic = bytes(cursor.span(len(MAGIC), "the magic number"))
    if magic != MAGIC:
        raise cursor.fail("this isn't a GGUF file")
    version = cursor.integer("I", "the version")
    if version & 0xFFFF == 0:  # small numbers in the other byte order
        cursor.order = ">"
        version = int.from_bytes(version.to_bytes(4, "little"), "big")
    if version == 1:
        raise cursor.fail("GGUF version 1 is not read; convert the model again (versions 2 and 3)")
    if version not in VERSIONS:
        raise cursor.fail(f"GGUF version {version} is not supported; supported are 2 and 3")
    return version


def _alignment(cursor: Cursor, metadata: Metadata) -> int:
    alignment = metadata.get("general.alignment", int, DEFAULT_ALIGNMENT)
    if alignment <= 0 or alignment & (alignment - 1):
        raise cursor.fail(f"'general.alignment' is {alignment}; expected a power of two")
    return alignment
