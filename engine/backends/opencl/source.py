"""The source of a family's programs: `kernels_cl/<family>.cl` behind the parts that it needs.

`python -m engine.backends.opencl.source FAMILY [NAME=VALUE ...]` prints it as drivers get it, with
these defines at its head; without a family it lists the families.

Built kernels are cached between runs by us, through pyopencl, and by drivers: `kept_folder`.
"""

import os
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

from engine.settings import cache_folder

OPTIONS = ("-cl-std=CL1.2", "-cl-mad-enable")
"""What every program is built with, besides its defines."""

PARTS: Mapping[str, tuple[str, ...]] = {
    "attention_lanes": ("blocks", "rope_heads", "attention_units"),
    "attention_tiles": ("blocks", "attention_units", "attention_cells"),
    "attention_vectors": ("blocks", "attention_units", "attention_cells"),
    "attention_wide": ("blocks", "attention_units", "attention_fragments", "fragments"),
    "copy": ("blocks", "block_grids", "block_formats"),
    "dot4_trial": ("intrinsics",),
    "matmul_experts": (
        *("tiled_scattered", "tiled_lanes", "tiled_floats"),
        *("intrinsics", "tiled_vectors", "tiled_dots", "tiled_sums"),
    ),
    "matmul_plain": ("blocks", "block_grids", "block_formats"),
    "matmul_tiled": (
        *("tiled_lanes", "tiled_floats", "intrinsics", "tiled_vectors", "tiled_dots"),
        *("tiled_sums", "tiled_bytes", "tiled_stage", "tiled_normed", "tiled_parts"),
    ),
    "matmul_wide": (
        *("tiled_wide", "tiled_lanes", "tiled_floats", "intrinsics", "tiled_vectors"),
        *("tiled_dots", "tiled_sums", "tiled_parts", "fragments"),
    ),
    "matrix_trial": ("intrinsics", "fragments"),
    "norm": ("row_sums",),
    "norm_chain": ("row_sums",),
    "pack": ("block_grids", "pack_formats", "pack_lanes"),
    "recurrence_lanes": ("recurrence",),
    "recurrence_vectors": ("recurrence",),
    "reduce": ("row_sums",),
    "rope_store": ("blocks", "rope_heads"),
    "rows": ("blocks", "block_grids", "block_formats"),
}
"""The files of `kernels_cl/parts` that a family is compiled behind, in order, after common.cl."""


def families() -> list[str]:
    """Their names, sorted."""
    names = (path.name for path in files("kernels_cl").iterdir())
    return sorted(name.removesuffix(".cl") for name in names if name.endswith(".cl"))


def source(family: str) -> str:
    """The parts, then the family's file, each with its name and lines for build logs."""
    folder = files("kernels_cl")
    named = {part: folder / "parts" / f"{part}.cl" for part in ("common", *PARTS.get(family, ()))}
    named[family] = folder / f"{family}.cl"
    texts = (f'#line 1 "{name}.cl"\n{path.read_text("utf-8")}' for name, path in named.items())
    return "\n".join(texts)


def main(arguments: list[str]) -> str:
    """Print a family's source. Raises `SystemExit` for an unknown family."""
    family, *defines = arguments or [""]
    if family not in families():
        raise SystemExit(f"families: {' '.join(families())}")
    heads = [f"#define {name} {value}" for name, _, value in (d.partition("=") for d in defines)]
    return "\n".join([*heads, source(family)])


@cache
def kept_folder(name: str, root: Path | None = None) -> Path:
    """A folder under the cache that can be written, or one that lasts as long as the process.

    PoCL shows no device at all where it cannot write its cache.
    """
    folder = (root or cache_folder()) / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    except OSError:  # read-only, full, or no home at all
        pass
    return Path(_temporary().name)


@cache
def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="cutaway-cache-")


if __name__ == "__main__":
    print(main(sys.argv[1:]))  # noqa: T201  a command for people
