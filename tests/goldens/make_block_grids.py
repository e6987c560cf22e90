"""Makes `kernels_cl/parts/block_grids.cl`: python -m tests.goldens.make_block_grids

The codebooks are those of the `gguf` package. A row is packed into 16 bits: eight numbers of two
bits, or four of four bits, each the place of the true number in the codebook's `grid_map`.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import fill

import numpy as np
from gguf import quants

TARGET = Path(__file__).parents[2] / "kernels_cl" / "parts" / "block_grids.cl"
GRIDS = {
    "iq2_xxs": quants.IQ2_XXS,
    "iq2_xs": quants.IQ2_XS,
    "iq2_s": quants.IQ2_S,
    "iq3_xxs": quants.IQ3_XXS,
    "iq3_s": quants.IQ3_S,
    "iq1": quants.IQ1_S,
}
HEAD = """\
// block_grids: the codebooks of IQ1, IQ2 and IQ3 blocks, read by block_formats.cl.
//
// Made by tests/goldens/make_block_grids.py from the tables of the gguf package. An entry is eight
// numbers of two bits, or four of four bits (IQ3), the first one lowest.
"""


def text() -> str:
    """The whole file."""
    return "\n".join([HEAD, *(table(name, packed(kind)) for name, kind in GRIDS.items())])


def packed(kind: type) -> np.ndarray:
    """The rows of a codebook, 16 bits each."""
    kind.init_grid()
    rows = kind.grid.reshape(kind.grid_shape)
    places = np.searchsorted(kind.grid_map, rows)
    assert (np.array(kind.grid_map)[places] == rows).all()
    bits = 16 // rows.shape[1]
    return (places << bits * np.arange(rows.shape[1])).sum(axis=1)


def table(name: str, entries: np.ndarray) -> str:
    """One codebook as a constant array."""
    numbers = fill(", ".join(map(str, entries)), 99, initial_indent="  ", subsequent_indent="  ")
    return f"__constant ushort {name}_grid[{len(entries)}] = {{\n{numbers}}};\n"


if __name__ == "__main__":
    TARGET.write_text(text(), "utf-8")
