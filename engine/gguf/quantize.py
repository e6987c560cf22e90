"""Float32 to blocks, by the `gguf` package's reference encoders."""

import numpy as np
import numpy.typing as npt

from engine.errors import NotSupported
from engine.gguf.formats import MXFP4, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, TQ1_0, TQ2_0, Format

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
