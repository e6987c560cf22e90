"""Opening a model: mapped file or files, metadata, and the tensors' blocks."""

import mmap
from collections.abc import Iterable, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt

from engine.errors import BadFile, ShapeError
from engine.gguf.dequantize import dequantize
from engine.gguf.formats import swap_blocks
from engine.gguf.metadata import Metadata
from engine.gguf.ollama import respelt
from engine.gguf.splits import FilePart, open_parts
from engine.gguf.tensors import TensorInfo
from engine.system import Advice, advise


def open_gguf(path: str | PathLike[str]) -> "GGUFFile":
    """The model at `path`; of a split one any part may be named.

    BadFile when the header or the parts are wrong. Data is mapped, not read: a file that shrinks
    while it is open ends the process with SIGBUS when the lost part is touched.
    """
    return GGUFFile(open_parts(Path(path)))


class GGUFFile:
    """An open model. Arrays from it stay valid after `close`; they keep the map alive."""

    def __init__(self, parts: Sequence[FilePart]) -> None:
        first = parts[0].header
        self.paths = tuple(part.path for part in parts)
        self.identity = tuple(part.identity for part in parts)
        self.size = sum(part.size for part in parts)
        self.version, self.alignment = first.version, first.alignment
        self.byteorder = "little" if first.order == "<" else "big"
        tensors = {tensor.name: tensor for part in parts for tensor in part.header.tensors}
        metadata, named = respelt(first.metadata, tensors)
        self.metadata: Metadata = metadata
        self.tensors: dict[str, TensorInfo] = dict(named)
        self._maps: list[memoryview] = [part.data for part in parts]
        self._excerpts = [part.excerpt for part in parts]

    def data(self, name: str) -> npt.NDArray[np.uint8]:
        """The blocks of a tensor, read-only, little-endian, [rows, row bytes].

        A view of the mapped file, or a swapped copy where that is big-endian.
        """
        return self._little(self._stored(name), self._info(name))

    def rows(
        self, name: str, ids: Sequence[int] | npt.NDArray[np.integer]
    ) -> npt.NDArray[np.float32]:
        """Rows of a tensor as float32 [len(ids), shape[0]]; ShapeError for one it does not have."""
        info = self._info(name)
        chosen = np.asarray(ids, dtype=np.int64).reshape(-1)
        outside = chosen[(chosen < 0) | (chosen >= info.rows)]
        if outside.size:
            raise ShapeError(name, f"row {outside[0]} of {info.rows}", info.shape)
        return dequantize(self._little(self._stored(name)[chosen], info), info.fmt)

    def array(self, name: str) -> npt.NDArray[np.float32]:
        """A whole tensor as float32, its shape reversed (NumPy's order), without padding dims."""
        info = self._info(name)
        return dequantize(self.data(name), info.fmt).reshape(info.shape[: info.n_dims][::-1])

    def drop_pages(self, names: Iterable[str] | None = None) -> None:
        """Take what was read so far of these tensors (None: of everything) out of this process's
        memory; the system brings it back where it is touched.
        """
        if names is None:
            for view in self._maps:
                _advise(view, 0, len(view), "DONTNEED")
            return
        for name in names:
            self.drop_read(name, 0, self._info(name).nbytes)

    def drop_read(self, name: str, start: int, size: int) -> None:
        """The same, of some bytes of a tensor."""
        info = self._info(name)
        if self._excerpts[info.file] is None:
            _advise(self._maps[info.file], info.offset + start, size, "DONTNEED")

    def read_ahead(self, name: str, start: int, size: int) -> None:
        """Have the system read these bytes of a tensor from the disk; waits for nothing."""
        info = self._info(name)
        if self._excerpts[info.file] is None:
            _advise(self._maps[info.file], info.offset + start, size, "WILLNEED")

    def close(self) -> None:
        """Let go of the files; they are unmapped when the last array from them is gone."""
        self._maps.clear()

    def __enter__(self) -> "GGUFFile":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _info(self, name: str) -> TensorInfo:
        if name not in self.tensors:
            raise BadFile(self.paths[0], f"has no tensor {name!r}")
        return self.tensors[name]

    def _stored(self, name: str) -> npt.NDArray[np.uint8]:
        info = self._info(name)
        if not self._maps:
            raise BadFile(self.paths[0], "was closed")
        excerpt = self._excerpts[info.file]
        at = info.offset if excerpt is None else excerpt.find(info.offset, info.nbytes)
        if at is None:
            problem = f"holds the header without the data of {name!r}; download the model first"
            raise BadFile(self.paths[info.file], problem)
        span = self._maps[info.file][at : at + info.nbytes]
        return np.frombuffer(span, np.uint8).reshape(info.rows, info.row_bytes)

    def _little(self, blocks: npt.NDArray[np.uint8], info: TensorInfo) -> npt.NDArray[np.uint8]:
        if self.byteorder == "little":
            return blocks
        swapped = swap_blocks(blocks, info.fmt)
        swapped.flags.writeable = False
        return swapped


def _advise(view: memoryview, start: int, size: int, advice: Advice) -> None:
    """Call madvise for the pages that hold these bytes of a map."""
    first = start // mmap.PAGESIZE * mmap.PAGESIZE
    if isinstance(view.obj, mmap.mmap) and size > 0:
        with suppress(OSError):  # where the system takes none, pages go and come as it likes
            advise(view.obj, advice, first, start + size - first)
