"""Weights of an open model, overwritten by others of the same type; no file is changed."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from engine.device.backend import Upload
from engine.errors import BadSetting, NotSupported
from engine.gguf.dequantize import QUANTIZABLE, dequantize, quantize
from engine.gguf.encode_k import K_QUANTS, encode_k
from engine.gguf.formats import BF16, F16, F32, Format, by_name
from engine.patterns import Pattern
from engine.runner.loading import LoadedModel

Floats = NDArray[np.float32]
Blocks = NDArray[np.uint8]
FLOATS = (F32, F16, BF16)


class WeightSwap:
    """Overwrites tensors of a model that was opened without prepared weights: their files are
    mapped, and would be written to.
    """

    def __init__(self, model: LoadedModel) -> None:
        self._model = model
        self._swapped: set[str] = set()
        of_adapters = model.built.of_adapters
        sources = {t: n for t, n in model.built.sources.items() if t not in of_adapters}
        self._leaves = {
            name: [leaf for leaf, own in sources.items() if own == name]
            for name in dict.fromkeys(sources.values())
        }

    def named(self, pattern: str) -> list[str]:
        """Names of float tensors that a regular expression matches. Raises `BadSetting`."""
        wanted = Pattern("what-if", pattern)
        found = [name for name in self._leaves if wanted.matches(name)]
        if not found:
            raise BadSetting("what-if", pattern, "the name of a tensor of the base, or a pattern")
        for name in found:
            self.check(name)
        return found

    def check(self, name: str) -> None:
        """Raise `BadSetting` unless the base has this tensor in floats."""
        if name not in self._leaves:
            raise BadSetting("base", name, "a base with this tensor")
        fmt = self._model.file.tensors[name].fmt
        if fmt not in FLOATS:
            raise BadSetting("base", f"{name} in {fmt}", "a base in F32, F16 or BF16")

    def size(self, name: str) -> int:
        """The number of a tensor's weights."""
        info = self._model.file.tensors[name]
        return info.rows * info.shape[0]

    def original(self, name: str) -> Floats:
        """The base's weights [rows, K]."""
        return dequantize(self._model.file.data(name), self._model.file.tensors[name].fmt)

    def put(self, name: str, values: Floats) -> None:
        """Overwrite a tensor by values [rows, K]."""
        self._swapped.add(name)
        self._write(name, encoded(values, self._model.file.tensors[name].fmt))

    def restore(self, name: str) -> None:
        """Write a tensor as the file has it."""
        self._write(name, self._model.file.data(name))
        self._swapped.discard(name)

    def restore_all(self) -> None:
        """Write all tensors that were overwritten as the file has them."""
        for name in sorted(self._swapped):
            self.restore(name)

    def _write(self, name: str, blocks: Blocks) -> None:
        room, dry = self._model.room, self._model.dry
        host = dry.backends[-1]
        for leaf in self._leaves[name]:
            if leaf in room.placed:
                upload = Upload(room.placed[leaf], leaf.fmt, leaf.shape, blocks)
                for _ in dry.backend_of(leaf).upload([upload]):
                    pass
            else:
                room.stepper.planner.replace(leaf, host.map(blocks))


def encoded(values: Floats, fmt: Format) -> Blocks:
    """Values [rows, K] as blocks [rows, row bytes] of a float format."""
    if fmt is F32:
        return np.ascontiguousarray(values, "<f4").view(np.uint8)
    if fmt is F16:
        return values.astype("<f2").view(np.uint8)
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return rounded.astype("<u2").view(np.uint8)


def as_format(values: Floats, name: str) -> Floats:
    """Values [rows, K] after quantising them. Raises `BadSetting`, `NotSupported`."""
    writable = ", ".join(fmt.name for fmt in (*FLOATS, *QUANTIZABLE, *K_QUANTS))
    try:
        fmt = by_name(name)
    except KeyError:
        raise BadSetting("what-if", name, f"one of {writable}") from None
    if fmt in FLOATS:
        return dequantize(encoded(values, fmt), fmt)
    if fmt not in QUANTIZABLE and fmt not in K_QUANTS:
        raise NotSupported(f"writing {fmt.name} (only {writable})")
    if values.shape[1] % fmt.block:
        raise BadSetting("what-if", f"rows of {values.shape[1]}", f"multiples of {fmt.block}")
    return dequantize(encode_k(values, fmt) if fmt in K_QUANTS else quantize(values, fmt), fmt)


def type_size(fmt: Format, n: int) -> int:
    """Bytes of n weights."""
    return n // fmt.block * fmt.bytes


def relative_error(values: Floats, other: Floats) -> float:
    """NMSE of other weights against these."""
    off = whole = 0.0
    for a, b in _parts(values, other):
        off += float(np.square(b - a, dtype=np.float64).sum())
        whole += float(np.square(a, dtype=np.float64).sum())
    return off / whole if whole else 0.0


def output_error(values: Floats, other: Floats, squares: NDArray[np.float64]) -> float:
    """NMSE of a product's output to first order: `squares` [K] are E[x²] of its inputs."""
    off = whole = 0.0
    for a, b in _parts(values, other):
        off += float(np.square(b - a, dtype=np.float64).sum(axis=0) @ squares)
        whole += float(np.square(a, dtype=np.float64).sum(axis=0) @ squares)
    return off / whole if whole else 0.0


def _parts(values: Floats, other: Floats) -> Iterator[tuple[Floats, Floats]]:
    for start in range(0, len(values), 1024):
        yield values[start : start + 1024], other[start : start + 1024]
