"""The block formats of ggml as one table: how many elements and bytes a block has, and its fields.

Ids, sizes and field order follow the GGUF specification and ggml's block structures; a test holds
them against the constants of the `gguf` package, which is too slow to import for a table.
"""

import re
import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.errors import ShapeError


@dataclass(frozen=True)
class Format:
    """One tensor type. A row is ne0 / block blocks of `bytes` bytes, without padding.

    `fields` lists a block's fields in order in the notation of `struct` ("e" half, "H" 16 bits,
    "I" 32 bits, "B" bytes): what a big-endian file stores swapped. `dtype` is the NumPy type of
    an element in a little-endian file, or None where NumPy has none.
    """

    id: int
    name: str
    block: int
    bytes: int
    fields: str
    dtype: str | None = None

    def __str__(self) -> str:
        return self.name

    @property
    def quantized(self) -> bool:
        """True where several elements share a block."""
        return self.block > 1

    def row_bytes(self, ne0: int) -> int:
        """Bytes of a row of `ne0` elements; ShapeError unless whole blocks make it up."""
        if ne0 % self.block:
            raise ShapeError(self.name, f"a row of {ne0} is not a multiple of {self.block}")
        return ne0 // self.block * self.bytes


def _plain(id: int, name: str, code: str, dtype: str | None) -> Format:
    return Format(id, name, 1, struct.calcsize("=" + code), code, dtype)


def _blocks(id: int, name: str, block: int, fields: str) -> Format:
    return Format(id, name, block, struct.calcsize("=" + fields), fields)


F32 = _plain(0, "F32", "f", "<f4")
F16 = _plain(1, "F16", "e", "<f2")
BF16 = _plain(30, "BF16", "H", None)
F64 = _plain(28, "F64", "d", "<f8")
I8 = _plain(24, "I8", "b", "<i1")
I16 = _plain(25, "I16", "h", "<i2")
I32 = _plain(26, "I32", "i", "<i4")
I64 = _plain(27, "I64", "q", "<i8")

# d, m: scale and minimum; qh: fifth bits of 32 elements as one number.
Q4_0 = _blocks(2, "Q4_0", 32, "e 16B")
Q4_1 = _blocks(3, "Q4_1", 32, "2e 16B")
Q5_0 = _blocks(6, "Q5_0", 32, "e I 16B")
Q5_1 = _blocks(7, "Q5_1", 32, "2e I 16B")
Q8_0 = _blocks(8, "Q8_0", 32, "e 32b")
# Two halves, in 8 bytes in the gguf package's table (from when they were floats) but 4 in ggml.
Q8_1 = _blocks(9, "Q8_1", 32, "2e 32b")
Q1_0 = _blocks(41, "Q1_0", 128, "e 16B")
Q2_0 = _blocks(42, "Q2_0", 64, "e 16B")

Q2_K = _blocks(10, "Q2_K", 256, "16B 64B 2e")
Q3_K = _blocks(11, "Q3_K", 256, "32B 64B 12B e")
Q4_K = _blocks(12, "Q4_K", 256, "2e 12B 128B")
Q5_K = _blocks(13, "Q5_K", 256, "2e 12B 32B 128B")
Q6_K = _blocks(14, "Q6_K", 256, "128B 64B 16b e")
Q8_K = _blocks(15, "Q8_K", 256, "f 256b 16h")

# Where the structures say bytes but ggml writes whole numbers (packed indices and signs in IQ2_XXS
# and IQ3_XXS, scales in IQ1_M), the number counts: it is what a big-endian machine stores swapped.
IQ2_XXS = _blocks(16, "IQ2_XXS", 256, "e 16I")
IQ2_XS = _blocks(17, "IQ2_XS", 256, "e 32H 8B")
IQ2_S = _blocks(22, "IQ2_S", 256, "e 64B 8B 8B")
IQ3_XXS = _blocks(18, "IQ3_XXS", 256, "e 64B 8I")
IQ3_S = _blocks(21, "IQ3_S", 256, "e 64B 8B 32B 4B")
IQ1_S = _blocks(19, "IQ1_S", 256, "e 32B 8H")
IQ1_M = _blocks(29, "IQ1_M", 256, "32B 16B 4H")
IQ4_NL = _blocks(20, "IQ4_NL", 32, "e 16B")
IQ4_XS = _blocks(23, "IQ4_XS", 256, "e H 4B 128B")

TQ1_0 = _blocks(34, "TQ1_0", 256, "48B 4B e")
TQ2_0 = _blocks(35, "TQ2_0", 256, "64B e")
MXFP4 = _blocks(39, "MXFP4", 32, "B 16B")
NVFP4 = _blocks(40, "NVFP4", 64, "4B 32B")

FORMATS: dict[int, Format] = {
    value.id: value for value in list(globals().values()) if isinstance(value, Format)
}

UNREADABLE = (Q8_1, Q8_K, Q1_0, Q2_0)
"""Two types that hold activations, and two that the `gguf` package has no decoder for."""

_NAMES = {fmt.name: fmt for fmt in FORMATS.values()}


def by_name(name: str) -> Format:
    """The format of that name, in either case; KeyError for one that ggml does not have."""
    return _NAMES[name.upper()]


def swap_blocks(blocks: npt.NDArray[np.uint8], fmt: Format) -> npt.NDArray[np.uint8]:
    """A copy of `blocks` [..., row bytes] with every 16, 32 and 64-bit field reversed."""
    swapped = np.array(blocks, order="C").reshape(-1, fmt.bytes)
    begin = 0
    for count, code in re.findall(r"(\d*)(\w)", fmt.fields):
        width = struct.calcsize("=" + code)
        end = begin + int(count or 1) * width
        if width > 1:
            swapped[:, begin:end].view(f"u{width}").byteswap(inplace=True)
        begin = end
    return swapped.reshape(blocks.shape)
