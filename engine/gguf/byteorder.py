"""Blocks from big-endian files, turned into what everything else here expects."""

import re
import struct

import numpy as np
import numpy.typing as npt

from engine.gguf.formats import Format


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
