"""Blocks to float32 and back: usual formats by our own decoders, others by the `gguf` package."""

import numpy as np
import numpy.typing as npt

from engine.errors import NotSupported, UnsupportedModel
from engine.gguf.decoders import DECODERS
from engine.gguf.formats import (
    BF16,
    FORMATS,
    MXFP4,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    TQ1_0,
    TQ2_0,
    UNREADABLE,
    Format,
)

# The package decodes 16 rows at a time, whatever their length. Blocks are independent, so the
# data is cut into rows of its own: long enough to amortise calls, short enough for the cache.
_ROW = 4096
# Elements our own decoders take at once, so that their steps stay in the cache.
_PIECE = 1 << 16


def dequantize(blocks: npt.NDArray[np.uint8], fmt: Format) -> npt.NDArray[np.float32]:
    """Little-endian `blocks` [..., row bytes] as float32 [..., ne0].

    F32 comes back as a view where memory allows. UnsupportedModel for a type that the `gguf`
    package does not read.
    """
    ne0 = blocks.shape[-1] // fmt.bytes * fmt.block
    shape = (*blocks.shape[:-1], ne0)
    data = np.ascontiguousarray(blocks).reshape(-1)
    if fmt.dtype is not None:
        return data.view(fmt.dtype).astype(np.float32, copy=False).reshape(shape)
    if fmt == BF16:
        wide = data.view("<u2").astype(np.uint32) << np.uint32(16)
        return wide.view(np.float32).reshape(shape)
    with np.errstate(all="ignore"):  # scales may be infinite or not numbers: the result says so
        if fmt in DECODERS:
            return _in_pieces(data.reshape(-1, fmt.bytes), fmt).reshape(shape)
        return _by_package(data, fmt).reshape(shape)


def _in_pieces(blocks: npt.NDArray[np.uint8], fmt: Format) -> npt.NDArray[np.float32]:
    step = _PIECE // fmt.block
    if len(blocks) <= step:
        return DECODERS[fmt](blocks)
    out = np.empty((len(blocks), fmt.block), np.float32)
    for start in range(0, len(blocks), step):
        out[start : start + step] = DECODERS[fmt](blocks[start : start + step])
    return out


def _by_package(data: npt.NDArray[np.uint8], fmt: Format) -> npt.NDArray[np.float32]:
    # Imported here: the package takes longer to import than a file takes to open.
    from gguf import quants
    from gguf.constants import GGMLQuantizationType

    if fmt in UNREADABLE or fmt.id not in GGMLQuantizationType.__members__.values():
        readable = [f.name for f in FORMATS.values() if f not in UNREADABLE]
        raise UnsupportedModel("tensor type", fmt.name, readable)
    kind = GGMLQuantizationType(fmt.id)
    row = _ROW // fmt.block * fmt.bytes
    whole = data.size // row * row
    parts = [data[:whole].reshape(-1, row), data[whole:].reshape(1, -1)]
    floats = [quants.dequantize(part, kind).reshape(-1) for part in parts if part.size]
    return floats[0] if len(floats) == 1 else np.concatenate([np.empty(0, np.float32), *floats])


QUANTIZABLE = (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, TQ1_0, TQ2_0, MXFP4)
"""The block formats that the package can write; it only reads the others."""


def quantize(values: npt.NDArray[np.float32], fmt: Format) -> npt.NDArray[np.uint8]:
    """[..., ne0] as blocks [..., row bytes]. Raises `NotSupported` for types without an encoder."""
    if fmt not in QUANTIZABLE:
        raise NotSupported(f"writing {fmt.name}")
    # Imported here: the package takes longer to import than a file takes to open.
    from gguf import quants
    from gguf.constants import GGMLQuantizationType

    if not values.size:
        return np.empty((*values.shape[:-1], fmt.row_bytes(values.shape[-1])), np.uint8)
    with np.errstate(all="ignore"):  # cells that nobody uses may hold anything
        blocks: npt.NDArray[np.uint8] = quants.quantize(
            np.ascontiguousarray(values, np.float32), GGMLQuantizationType(fmt.id)
        )
    return blocks
