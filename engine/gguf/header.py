"""One file's header, checked before it is believed.

Layout, after the GGUF specification: magic, version, two counts, the pairs, the tensor infos, and
the data from the next multiple of `general.alignment`.
"""

from dataclasses import dataclass

from engine.gguf.cursor import Cursor
from engine.gguf.metadata import Metadata
from engine.gguf.pairs import PairReader
from engine.gguf.tensors import TensorInfo, place, read_infos

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
