"""The numbers of a model's file on this machine's disk, a piece at a time, whatever their type.

Nothing is mapped: a file that shrinks gives an error, where a map would end the process.
"""

import os
import threading
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.errors import BadFile, BadSetting
from engine.gguf import open_gguf
from engine.gguf.dequantize import dequantize
from engine.gguf.formats import swap_blocks
from engine.gguf.tensors import TensorInfo
from engine.system import open_to_read, read_at

PART = 4  # of a row's bytes: where less is wanted, only that is read


class LocalWeights:
    """The tensors of a model, by name; may be read from several threads. Raises `BadFile`."""

    def __init__(self, path: str | Path) -> None:
        with open_gguf(path) as file:
            self.tensors: Mapping[str, TensorInfo] = dict(file.tensors)
            self._paths = file.paths
            self._swapped = file.byteorder == "big"
        self._lock = threading.Lock()
        self._handles: dict[int, int] = {}
        self._closed = False

    def numbers(self, name: str, rows: range, columns: range) -> NDArray[np.float32]:
        """float32 [len(rows), len(columns)] of a tensor as rows of its dimension 0.

        Raises `BadFile`, `BadSetting` for what it does not have.
        """
        info = self._info(name)
        if not len(rows) or not len(columns):
            return np.zeros((len(rows), len(columns)), np.float32)
        block = info.fmt.block
        first, end = columns[0] // block, columns[-1] // block + 1
        blocks = self.blocks(name, rows, range(first, end))
        shift = first * block
        return dequantize(blocks, info.fmt)[
            :, columns.start - shift : columns[-1] + 1 - shift : columns.step
        ]

    def blocks(self, name: str, rows: range, blocks: range | None = None) -> NDArray[np.uint8]:
        """The stored bytes, little-endian, [len(rows), bytes] of some blocks of some rows."""
        info = self._info(name)
        whole = range(info.shape[0] // info.fmt.block)
        wanted = whole if blocks is None else blocks
        for chosen, there in ((rows, range(info.rows)), (wanted, whole)):
            if len(chosen) and (chosen[0] not in there or chosen[-1] not in there):
                raise BadSetting("rows", chosen, f"within {there} of {name}")
        size, at = len(wanted) * info.fmt.bytes, info.offset + wanted.start * info.fmt.bytes
        if rows.step == 1 and size * PART > info.row_bytes:
            start = info.offset + rows.start * info.row_bytes
            data = self.read_numbers(info.file, start, len(rows) * info.row_bytes)
            skip = at - info.offset
            found = data.reshape(len(rows), info.row_bytes)[:, skip : skip + size]
        else:
            found = np.empty((len(rows), size), np.uint8)
            for i, row in enumerate(rows):
                found[i] = self.read_numbers(info.file, at + row * info.row_bytes, size)
        found = np.ascontiguousarray(found)
        return swap_blocks(found, info.fmt) if self._swapped else found

    def close(self) -> None:
        """Let go of the files; harmless when done twice."""
        with self._lock:
            self._closed = True
            while self._handles:
                os.close(self._handles.popitem()[1])

    def _info(self, name: str) -> TensorInfo:
        if name not in self.tensors:
            raise BadFile(self._paths[0], f"has no tensor {name!r}")
        return self.tensors[name]

    def read_numbers(self, part: int, start: int, size: int) -> NDArray[np.uint8]:
        path = self._paths[part]
        data = bytearray(size)
        try:
            with self._lock:
                if self._closed:
                    raise BadFile(path, "was closed")
                if part not in self._handles:
                    self._handles[part] = open_to_read(path)
                handle = os.dup(self._handles[part])
            try:
                done = read_at(handle, memoryview(data), start)
                while 0 < done < size:
                    more = read_at(handle, memoryview(data)[done:], start + done)
                    done = done + more if more else size + 1
            finally:
                os.close(handle)
        except OSError as error:
            raise BadFile(path, error.strerror or str(error)) from None
        if done != size:
            raise BadFile(path, f"ends before byte {start + size}; it was changed")
        return np.frombuffer(data, np.uint8)
