"""Which OpenCL drivers are installed: the system's, and those of packages in this environment.

Nothing is loaded here. The loader in pyopencl's wheels reads one folder of `.icd` files and adds
the drivers that lie beside it; packages that bring a driver put its `.icd` where no loader looks,
or with a path that is not true. So all of them are collected into one list.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from glob import glob
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

SYSTEM_FOLDER = Path("/etc/OpenCL/vendors")
# Names the one library that a process of the diagnosis loads; people use OCL_ICD_VENDORS.
ONLY = "_CUTAWAY_ONLY_DRIVER"
PACKAGES = {"intel-opencl-rt": "libintelocl.so"}
UNLISTED = (
    "/usr/lib/*-linux-gnu/libnvidia-opencl.so.1",
    "/usr/lib64/libnvidia-opencl.so.1",
    "/usr/local/nvidia/lib64/libnvidia-opencl.so.1",
    "/opt/rocm*/lib/libamdocl64.so",
)
"""Drivers of GPUs that containers get without an `.icd` file."""


@dataclass(frozen=True)
class Driver:
    """A driver's library, as it is given to the system's loader, and who brought it."""

    library: str
    origin: str

    @property
    def name(self) -> str:
        """The library's bare name, without version or the mark that wheels add: `libpocl`."""
        return re.sub(r"(-[0-9a-f]{8})?\..*$", "", Path(self.library).name)


def find_drivers(environ: Mapping[str, str] = os.environ) -> list[Driver]:
    """Every installed driver once: packages of this environment first, then the system's.

    Of two Intel runtimes only the first counts: one process cannot hold both. An emulator of
    FPGAs is left out, since it would look like a second, slower processor.
    """
    found: dict[str, Driver] = {}
    for driver in (*_packages(), *_beside_loader(), *_system(environ)):
        if driver.name.endswith("_emu"):
            continue
        known = driver.name if driver.name == "libintelocl" else _identity(driver.library)
        found.setdefault(known, driver)
    names = {driver.name for driver in found.values()}
    unlisted = [] if environ.get("OCL_ICD_VENDORS") else list(_unlisted())
    for driver in unlisted:
        if driver.name not in names:
            names.add(driver.name)
            found[driver.library] = driver
    return list(found.values())


def _identity(library: str) -> str:
    return os.path.realpath(library) if os.path.isabs(library) else library


def _packages() -> Iterator[Driver]:
    for package, library in PACKAGES.items():
        try:
            files = metadata.files(package) or []
        except metadata.PackageNotFoundError:
            continue
        for file in files:
            path = Path(str(file.locate()))
            if file.name == library and path.exists():
                yield Driver(str(path.resolve()), package)


def _beside_loader() -> Iterator[Driver]:
    spec = find_spec("pyopencl")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        own = Path(folder) / ".libs"
        for library in _read_folder(own):
            beside = own / library
            if beside.exists():
                yield Driver(str(beside), "pocl-binary-distribution")


def _system(environ: Mapping[str, str]) -> Iterator[Driver]:
    chosen = environ.get("OCL_ICD_VENDORS", "")
    listed = [name for name in environ.get("OCL_ICD_FILENAMES", "").split(os.pathsep) if name]
    if chosen and not Path(chosen).is_dir():
        listed.append(chosen)
    for name in listed:
        for library in _read_icd(Path(name)) if name.endswith(".icd") else [name]:
            yield Driver(library, "OCL_ICD_VENDORS" if name == chosen else "OCL_ICD_FILENAMES")
    if Path(chosen).is_dir() and chosen:
        yield from (Driver(library, chosen) for library in _read_folder(Path(chosen)))
    elif not chosen:
        for folder in dict.fromkeys((SYSTEM_FOLDER, Path(sys.prefix) / "etc/OpenCL/vendors")):
            for library in _read_folder(folder):
                # The Intel wheel's own file names a folder of the machine it was made on.
                if not os.path.isabs(library) or os.path.exists(library):
                    yield Driver(library, str(folder))


def _unlisted() -> Iterator[Driver]:
    for pattern in UNLISTED:
        for library in sorted(glob(pattern)):
            yield Driver(library, str(Path(library).parent))


def _read_folder(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("*.icd")):
        yield from _read_icd(path)


def _read_icd(path: Path) -> list[str]:
    """The library that an `.icd` file names, or nothing where it cannot be read."""
    try:
        lines = path.read_text("utf-8", "replace").split("\n")
    except OSError:
        return []
    return [lines[0].strip()] if lines[0].strip() else []
