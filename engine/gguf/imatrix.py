"""Importance matrices as llama.cpp's llama-imatrix writes them: GGUF, and the legacy .dat."""

import struct
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.errors import BadFile
from engine.gguf.formats import F32
from engine.gguf.reader import open_gguf

Sums = NDArray[np.float64]
TYPE = "imatrix"
MOST_ENTRIES, MOST_NAME = 1 << 20, 1 << 16


class ImportanceMatrix(NamedTuple):
    """Sums of squares [matrices, K] and counts [matrices] by a weight's name, over `chunks` of
    `chunk_size` tokens of some datasets.
    """

    sums: Mapping[str, Sums]
    counts: Mapping[str, Sums]
    chunks: int
    chunk_size: int
    datasets: tuple[str, ...]


def write_imatrix(path: Path, matrix: ImportanceMatrix) -> None:
    """Write a GGUF file with tensors `NAME.in_sum2` and `NAME.counts`."""
    import gguf  # here: the package takes longer to import than a file takes to open

    writer = gguf.GGUFWriter(path, TYPE)
    writer.kv_data[0].pop("general.architecture")  # such a file has none
    writer.add_string("general.type", TYPE)
    writer.add_array("imatrix.datasets", list(matrix.datasets))
    writer.add_uint32("imatrix.chunk_count", matrix.chunks)
    writer.add_uint32("imatrix.chunk_size", matrix.chunk_size)
    for name in sorted(matrix.sums):
        writer.add_tensor(f"{name}.in_sum2", matrix.sums[name].astype(np.float32))
        writer.add_tensor(f"{name}.counts", matrix.counts[name].astype(np.float32)[:, None])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def read_imatrix(path: str | PathLike[str]) -> ImportanceMatrix:
    """Either format. Raises `BadFile`."""
    with Path(path).open("rb") as file:
        magic = file.read(4)
    return _read_gguf(path) if magic == b"GGUF" else _read_dat(Path(path))


def _read_gguf(path: str | PathLike[str]) -> ImportanceMatrix:
    with open_gguf(path) as file:
        if file.metadata.get("general.type", str, "") != TYPE:
            raise BadFile(path, "is not an importance matrix (general.type)")
        sums, counts = {}, {}
        for name, info in file.tensors.items():
            stem, _, part = name.rpartition(".")
            if info.fmt is F32 and part in ("in_sum2", "counts"):
                values = file.array(name).astype(np.float64)
                if part == "in_sum2":
                    sums[stem] = values.reshape(-1, values.shape[-1])
                else:
                    counts[stem] = values.reshape(-1)
        for name, values in sums.items():
            if name not in counts or len(counts[name]) != len(values):
                raise BadFile(path, f"{name}.counts does not fit {name}.in_sum2")
        number = file.metadata.get
        chunks, size = (number(f"imatrix.chunk_{one}", int, 0) for one in ("count", "size"))
    return ImportanceMatrix(sums, {name: counts[name] for name in sums}, chunks, size, ())


def packed_dat(matrix: ImportanceMatrix) -> bytes:
    """The legacy format: means times the number of calls."""
    parts = [struct.pack("<i", len(matrix.sums))]
    for name in sorted(matrix.sums):
        sums, counts = matrix.sums[name], matrix.counts[name]
        calls = -(-int(counts.max()) // max(1, matrix.chunk_size))
        some = counts[:, None] > 0
        means = np.where(some, sums / np.maximum(counts, 1)[:, None], 1.0) * calls
        text = name.encode()
        parts.append(struct.pack("<i", len(text)) + text)
        parts.append(struct.pack("<ii", calls, means.size) + means.astype("<f4").tobytes())
    dataset = (matrix.datasets[0] if matrix.datasets else "").encode()
    parts.append(struct.pack("<ii", matrix.chunks, len(dataset)) + dataset)
    return b"".join(parts)


def _read_dat(path: Path) -> ImportanceMatrix:
    data, at = path.read_bytes(), 0

    def number() -> int:
        nonlocal at
        if at + 4 > len(data):
            raise BadFile(path, "ends in the middle of an entry")
        (found,) = struct.unpack_from("<i", data, at)
        at += 4
        return int(found)

    def block(size: int, most: int) -> bytes:
        nonlocal at
        if not 0 <= size <= most or at + size > len(data):
            raise BadFile(path, f"an entry of {size} bytes does not fit the file")
        at += size
        return data[at - size : at]

    sums, counts = {}, {}
    entries = number()
    if not 0 <= entries <= MOST_ENTRIES:
        raise BadFile(path, f"{entries} entries are not an importance matrix")
    for _ in range(entries):
        name = block(number(), MOST_NAME).decode("utf-8", "replace")
        calls, n = number(), number()
        values = np.frombuffer(block(4 * n, len(data)), "<f4").astype(np.float64)
        sums[name], counts[name] = values[None], np.array([float(max(calls, 1))])
    chunks = number() if at < len(data) else 0
    return ImportanceMatrix(sums, counts, chunks, 0, ())
