"""Kernels with narrower vectors than the processor has (`CUTAWAY_VECTORS`), as others run them.

A driver compiles for the processor it is on. Intel's runtime takes another one from a variable that
it reads when it is loaded. PoCL takes its processor's name from its record of the device
(unknown_cpu.py), and its built-in functions from a library beside it that fits the processor: so a
link to the driver is loaded, in a folder where that library's name leads to a narrower one.
"""

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from engine.backends.opencl.drivers.find import Driver
from engine.backends.opencl.source import kept_folder
from engine.settings import VECTORS


class Vectors(NamedTuple):
    """`ints` are 32-bit integers of a vector; how Intel's runtime names the processor; and what
    PoCL's libraries of built-in functions end with, best first.
    """

    ints: int
    intel: str
    pocl: tuple[str, ...]


_SSE = ("sse41", "ssse3", "sse2")
KINDS = {
    "avx2": Vectors(8, "core-avx2", ("avx2", "avx_fma4", "avx_f16c", "avx", *_SSE)),
    "sse": Vectors(4, "corei7", _SSE),
}
"""By the setting's value; others set no limit."""

POCL = "pocl-binary-distribution"
_LIBRARIES = "kernel-x86_64-unknown-linux-gnu-"


def limit() -> Vectors | None:
    """The widest vectors that kernels may have; None for the processor's own."""
    return KINDS.get(VECTORS.get())


def build_options() -> list[str]:
    """A define that keeps programs of other vectors apart wherever built ones are kept."""
    return [f"-DVECTORS_OF_{VECTORS.get()}"] if limit() else []


def limit_drivers() -> None:
    """Limit the vectors of drivers that are not yet loaded."""
    if narrow := limit():
        os.environ["CL_CONFIG_CPU_TARGET_ARCH"] = narrow.intel


def library_of(driver: Driver) -> str:
    """The file to load for a driver."""
    narrow = limit()
    if narrow is None or driver.origin != POCL:
        return driver.library
    return str(narrow_pocl(Path(driver.library), VECTORS.get(), narrow))


def narrow_pocl(library: Path, name: str, narrow: Vectors) -> Path:
    """The same driver in a folder of its own, with narrower built-in functions; made once."""
    of_library = hashlib.sha256(os.fsencode(library)).hexdigest()[:16]
    place = kept_folder("drivers") / f"{name}-{of_library}"
    inside = Path(library.parent.parent.name) / ".libs" / library.name
    if not (place / inside).exists():
        made = Path(tempfile.mkdtemp(dir=place.parent))
        _link(library, made / inside)
        parts = library.parents[2] / "pocl_binary_distribution" / ".libs"
        for part in parts.rglob("*"):
            if part.is_file():
                beside = made / "pocl_binary_distribution" / ".libs" / part.relative_to(parts)
                beside.parent.mkdir(parents=True, exist_ok=True)
                beside.symlink_to(_narrower(part, narrow))
        try:
            made.rename(place)
        except OSError:  # another process was quicker
            shutil.rmtree(made)
    return place / inside


def _narrower(part: Path, narrow: Vectors) -> Path:
    kind = part.name.removeprefix(_LIBRARIES).removesuffix(".bc")
    if kind == part.name or kind in narrow.pocl:
        return part
    return part.with_name(f"{_LIBRARIES}{narrow.pocl[0]}.bc") if part.suffix == ".bc" else part


def _link(library: Path, to: Path) -> None:
    to.parent.mkdir(parents=True)
    try:
        os.link(library, to)
    except OSError:  # another file system
        shutil.copy(library, to)
