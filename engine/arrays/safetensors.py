"""Safetensors: a u64 header length, a JSON header, then the arrays (huggingface/safetensors).

A file is not trusted: offsets rise without gaps or overlaps, sizes are those of the shapes, and
nothing outside the file is read.
"""

import json
import mmap
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import BadFile

MOST_HEADER = 16 << 20
TYPES = {
    "F64": ("<f8", 8),
    "F32": ("<f4", 4),
    "F16": ("<f2", 2),
    "BF16": ("<u2", 2),
    "I64": ("<i8", 8),
    "I32": ("<i4", 4),
    "I16": ("<i2", 2),
    "I8": ("<i1", 1),
    "U8": ("<u1", 1),
    "BOOL": ("<u1", 1),
}
"""NumPy types and bytes by name; others have none."""
MOST_DIMS = 8
Floats = NDArray[np.float32]


class SafeTensors:
    """An open file: `metadata` are its texts, `shapes` those of its arrays. Raises `BadFile`."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, 2)
                if size < 8:
                    raise BadFile(path, f"{size} bytes are too few for a safetensors file")
                self._data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except OSError as error:
            raise BadFile(path, f"cannot be read ({error.strerror})") from None
        header = self._header(size)
        self.metadata: dict[str, str] = self._texts(header.pop("__metadata__", {}))
        self._arrays = self._checked(header, size)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each array by its name."""
        return {name: shape for name, (_, shape, _) in self._arrays.items()}

    def array(self, name: str) -> Floats:
        """An array as float32. Raises `BadFile` for one that is missing."""
        if name not in self._arrays:
            raise BadFile(self.path, f"has no array {name!r}")
        kind, shape, begin = self._arrays[name]
        dtype, width = TYPES[kind]
        n = int(np.prod(shape, dtype=np.int64))
        flat = np.frombuffer(self._data[begin : begin + n * width], dtype)
        if kind == "BF16":
            flat = (flat.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return flat.astype(np.float32, copy=False).reshape(shape)

    def _header(self, size: int) -> dict[str, Any]:
        self._begin = 8 + int.from_bytes(self._data[:8], "little")
        length = self._begin - 8
        if length > MOST_HEADER or self._begin > size:
            raise BadFile(self.path, f"its header of {length:,} bytes is longer than allowed")
        try:
            header = json.loads(bytes(self._data[8 : self._begin]), object_pairs_hook=_once)
        except (ValueError, RecursionError) as error:
            raise BadFile(self.path, f"its header is not valid JSON ({error})") from None
        if not isinstance(header, dict):
            raise BadFile(self.path, "its header is not a JSON object")
        return header

    def _texts(self, metadata: object) -> dict[str, str]:
        if not isinstance(metadata, dict) or not all(
            isinstance(value, str) for value in metadata.values()
        ):
            raise BadFile(self.path, "its metadata is not a table of texts")
        return metadata

    def _checked(
        self, header: dict[str, Any], size: int
    ) -> dict[str, tuple[str, tuple[int, ...], int]]:
        """Type, shape and offset of each array."""
        found, spans = {}, []
        for name, entry in header.items():
            kind, shape, (begin, end) = self._entry(name, entry)
            n = 1
            for one in shape:
                n *= one
            if end - begin != n * TYPES[kind][1]:
                raise BadFile(self.path, f"{name!r} has {end - begin} bytes for {list(shape)}")
            if self._begin + end > size:
                raise BadFile(self.path, f"{name!r} ends after the end of the file")
            found[name] = (kind, shape, self._begin + begin)
            spans.append((begin, end, name))
        at = 0
        for begin, end, name in sorted(spans):
            if begin != at:
                raise BadFile(self.path, f"{name!r} begins at byte {begin} instead of {at}")
            at = end
        return found

    def _entry(self, name: str, entry: Any) -> tuple[str, tuple[int, ...], tuple[int, int]]:
        if not isinstance(entry, dict):
            raise BadFile(self.path, f"{name!r} is not described by an object")
        kind: Any = entry.get("dtype")
        shape: Any = entry.get("shape")
        offsets: Any = entry.get("data_offsets")
        if not isinstance(kind, str) or kind not in TYPES:
            raise BadFile(self.path, f"{name!r} has type {kind!r}; known are {', '.join(TYPES)}")
        if not _whole(shape) or len(shape) > MOST_DIMS:
            raise BadFile(self.path, f"{name!r} has shape {shape!r}")
        if not _whole(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
            raise BadFile(self.path, f"{name!r} has offsets {offsets!r}")
        return kind, tuple(shape), (offsets[0], offsets[1])


def _whole(values: object) -> bool:
    """True for a list of whole numbers from 0 up that 64 bits hold."""
    return isinstance(values, list) and all(
        isinstance(one, int) and not isinstance(one, bool) and 0 <= one < 1 << 63 for one in values
    )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice")
    return found


def packed(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> bytes:
    """A safetensors file of float32 and float16 arrays."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    parts, at = [], 0
    for name, values in arrays.items():
        kind = "F16" if values.dtype == np.float16 else "F32"
        data = np.ascontiguousarray(values, TYPES[kind][0]).tobytes()
        offsets = [at, at + len(data)]
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": offsets}
        parts.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(parts)
