"""Prepared weights that a load maps from a model's file."""

from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from engine.device.backend import Buffer, Component
from engine.errors import BadFile, CutawayError, NotSupported
from engine.graph.tensor import Tensor
from engine.units import MIB
from engine.weights.load import Allocation, InFile
from engine.weights.prepared.file import START, Entry, PreparedFile

Stored = Callable[[Tensor], InFile]


class PreparedWeights:
    """Prepared weights of one model, for devices of one packing; `path` is None where unused.

    `problem` shows why not all that was requested was there.
    """

    def __init__(self, path: Path | None) -> None:
        self.path, self.problem, self._why = path, "", ""
        self._file: PreparedFile | None = None
        self._taken: dict[Allocation, Entry] = {}
        if path is None:
            return
        try:
            self._file = PreparedFile(path)
        except FileNotFoundError:
            self._why = "there are none of this file yet"
        except OSError as error:
            self._why = f"{path}: {error.strerror}"
        except BadFile as error:
            self._why = str(error)

    @property
    def size(self) -> int:
        """Bytes that were taken."""
        return sum(entry.size for entry in self._taken.values())

    def hold(self, wanted: Allocation, stored: Stored) -> Buffer | None:
        """A buffer of what the file has for it, if the device takes that; it is not read yet."""
        if self.path is None or not _is_kept(wanted):
            return None
        if self._file is None:
            self.problem = self._why
            return None
        entry = self._file.entries.get(key_of(wanted, stored))
        if entry is None or entry.size != wanted.size:
            if wanted.size >= START:  # smaller ones are never kept
                self.problem = "none for this placement; there are some of another placement"
            return None
        try:
            buffer = wanted.backend.hold(wanted.type, self._file.data(entry), wanted.owner)
        except CutawayError as error:  # where there is no room, packing finds none either
            self.problem = str(error)
            return None
        self._taken[wanted] = entry
        return buffer

    def put_back(self) -> None:
        """Nothing was taken after all."""
        self._taken.clear()

    def read_in(self) -> Iterator[int]:
        """Bring what was taken into memory. Yields how many bytes there are since the last time."""
        for entry in self._taken.values():
            assert self._file is not None
            yield from self._file.read_in(entry)

    def check(self) -> Iterator[None]:
        """Read what was taken, a piece between two yields. Raises `BadFile` for damaged bytes."""
        for entry in self._taken.values():
            assert self._file is not None
            yield from self._file.check(entry)

    def has(self, buffers: Mapping[str, Buffer]) -> bool:
        """True if all of these are in the file, by their keys."""
        return self._file is not None and buffers.keys() <= self._file.entries.keys()

    def report(self) -> list[str]:
        """A line on what was taken, one on why not more was."""
        taken = f"weights that were prepared: {self.size / MIB:.1f} MiB of {self.path}"
        lacking = f"weights were repacked, not loaded as prepared: {self.problem}"
        return [taken] * bool(self._taken) + [lacking] * bool(self.problem)


def key_of(wanted: Allocation, stored: Stored) -> str:
    """Key of a buffer of weights by its content: the same numbers of the same files, packed in
    the same way. No matter for which device, where its files lie, or whose layer it is.
    """
    tensors = [
        ([one[1:] for one in file.identity], name, tensor.fmt.name, tensor.shape, size)
        for tensor, size in wanted.tensors
        for file, name in (stored(tensor),)
    ]
    facts = (wanted.backend.packing, wanted.type.layout, tensors)
    return sha256(repr(facts).encode()).hexdigest()


def keepable(buffers: Mapping[Allocation, Buffer], stored: Stored) -> dict[str, Buffer]:
    """Filled buffers whose bytes a file can keep, by their keys."""
    return {
        key_of(wanted, stored): buffer
        for wanted, buffer in buffers.items()
        if _is_kept(wanted) and _is_in_memory(buffer)
    }


def _is_kept(wanted: Allocation) -> bool:
    """True for weights that the device packs, but adapters': they come and go."""
    return bool(wanted.backend.packing) and wanted.owner.component is not Component.ADAPTERS


def _is_in_memory(buffer: Buffer) -> bool:
    try:
        buffer.view(0, 0)
    except NotSupported:
        return False
    return True
