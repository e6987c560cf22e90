"""Rows of a model's caches as bytes that name no device and no cell, and back."""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256

import msgspec
import numpy as np
from numpy.typing import NDArray

from engine.device.backend import Event, Location
from engine.graph.tensor import Tensor
from engine.kvcache.causal import Ints
from engine.layers.step import LayerCache
from engine.models.build import BuiltModel
from engine.models.kept import PICTURES
from engine.prefixes import BLOCK, Head, Saved, parts_of
from engine.runner.pictures.items import EncodedText, Item

VERSION = "cutaway prefix 1"
"""Changes whenever equal items would have other rows, or rows another layout."""
Key = int | str


def key_of(item: Item) -> Key:
    """A token, or the name of a picture's row or an encoded text: equal ones have equal rows in a
    cache.
    """
    if isinstance(item, int):
        return item
    if isinstance(item, EncodedText):
        return f"{item.token} reads {sha256(repr(item.text).encode()).hexdigest()}"
    picture = item.picture
    return f"{picture.digest} {picture.limits} {picture.token} {item.row}"


def facts_of(built: BuiltModel, files: Sequence[object], bits: int) -> bytes:
    """The digest of all that rows depend on besides items: of which `files`, in which formats."""
    layers = [None if one is None else _layer_facts(one) for one in built.layers]
    states = [
        None if one is None else [(leaf.fmt.name, leaf.shape[0]) for leaf in one.leaves]
        for one in built.states
    ]
    sights = [(one.window, one.chunk) for one in built.caches.caches]
    facts = (VERSION, built.arch, list(files), bits, layers, states, sights)
    return sha256(repr(facts).encode()).digest()


def with_adapters(facts: bytes, adapters: Sequence[object], scales: Sequence[float]) -> bytes:
    """The digest where adapters of these files are scaled so: the same where none does anything."""
    active = [pair for pair in zip(adapters, scales, strict=True) if pair[1]]
    return sha256(facts + repr(active).encode()).digest() if active else facts


def _layer_facts(layer: LayerCache) -> object:
    leaves = [(leaf.name, leaf.fmt.name, leaf.shape[0]) for leaf in layer.leaves]
    return leaves, layer.heads, layer.cache, layer.rope, layer.borrowed


def chain(facts: bytes, items: Sequence[Item]) -> list[str]:
    """The name before the first block, and behind each whole block of the items."""
    last, names = facts, [facts.hex()[:40]]
    for begin in range(0, len(items) - BLOCK + 1, BLOCK):
        keys = [key_of(item) for item in items[begin : begin + BLOCK]]
        ids = np.array([key if isinstance(key, int) else -1 for key in keys], np.int32)
        pictures = "\0".join(key for key in keys if isinstance(key, str))
        last = sha256(last + ids.tobytes() + pictures.encode()).digest()
        names.append(last.hex()[:40])
    return names


class CacheRows:
    """The rows of one model's caches, where they are `placed` by now."""

    def __init__(self, built: BuiltModel) -> None:
        self._leaves: dict[int, list[Tensor]] = {}
        for layer in built.layers:
            if layer is not None:
                self._leaves.setdefault(layer.cache, []).extend(layer.leaves)
        self._states = [leaf for one in built.states if one is not None for leaf in one.leaves]

    def of_cells(self, cache: int, cells: Ints) -> "Wanted":
        """Rows of these cells of a cache, PICTURES for that of pictures."""
        return Wanted([(leaf.name, leaf, cells) for leaf in self._leaves.get(cache, ())])

    def of_pictures(self, cells: Ints) -> "Wanted":
        """Rows of these cells of the cache of pictures."""
        return self.of_cells(PICTURES, cells)

    def of_state(self, slot: int) -> "Wanted":
        """The states in a slot."""
        cells = np.array([slot], np.int32)
        return Wanted([(leaf.name, leaf, cells) for leaf in self._states])

    def bytes_of(self, cache: int) -> int:
        """Bytes of a cell."""
        return sum(leaf.strides[1] for leaf in self._leaves.get(cache, ()))


class Wanted:
    """Rows of tensors: of each a key, the tensor and its cells."""

    def __init__(self, rows: Sequence[tuple[str, Tensor, Ints]] = ()) -> None:
        self.rows = tuple(rows)

    def __add__(self, other: "Wanted") -> "Wanted":
        return Wanted((*self.rows, *other.rows))

    def _runs(self) -> dict[int, list[tuple[int, int]]]:
        """Runs of each array of cells by its id, as most layers have the same one."""
        arrays = {id(cells): cells for _, _, cells in self.rows}
        return {key: list(_runs(cells)) for key, cells in arrays.items()}

    def saved(self, placed: Mapping[Tensor, Location], head: Head) -> Saved:
        """Their bytes, as the parts of a file with this header."""
        sizes = ((key, len(cells) * leaf.strides[1]) for key, leaf, cells in self.rows)
        parts, size = parts_of(sizes)
        body, runs = np.zeros(size, np.uint8), self._runs()
        for part, (_, leaf, cells) in zip(parts, self.rows, strict=True):
            at, width = placed[leaf], leaf.strides[1]
            rows = body[part.start : part.start + part.size].reshape(len(cells), width)
            for begin, end in runs[id(cells)]:
                start = at.offset + int(cells[begin]) * width
                read = at.buffer.read(start, (end - begin) * width)
                rows[begin:end] = read.reshape(end - begin, width)
        whole = msgspec.structs.replace(head, parts=parts)
        return Saved(whole, body.data)

    def restore(
        self,
        placed: Mapping[Tensor, Location],
        saved: Saved,
        skipped: int = 0,
        of: int | None = None,
    ) -> bool:
        """Write the rows that were saved into the caches; of such as had `of` rows, those behind
        the first `skipped`. False where a part is missing.
        """
        found: list[NDArray[np.uint8]] = []
        for key, leaf, cells in self.rows:
            width = leaf.strides[1]
            part = saved.part(key, (len(cells) if of is None else of) * width)
            if part is None or skipped < 0:
                return False
            rows = np.frombuffer(part, np.uint8).reshape(-1, width)
            found.append(rows[skipped : skipped + len(cells)])
        written: list[Event] = []
        runs = self._runs()
        for (_, leaf, cells), rows in zip(self.rows, found, strict=True):
            at, width = placed[leaf], leaf.strides[1]
            for begin, end in runs[id(cells)]:
                start = at.offset + int(cells[begin]) * width
                written.append(at.buffer.start_write(start, rows[begin:end].reshape(-1)))
        for one in written:
            one.wait()
        return True


def _runs(cells: Ints) -> Iterator[tuple[int, int]]:
    """Ranges of indices whose cells follow each other."""
    cuts = [0, *(np.flatnonzero(np.diff(cells) != 1) + 1).tolist(), len(cells)]
    return ((a, b) for a, b in zip(cuts, cuts[1:], strict=False) if b > a)
