"""Programs: a family built once per set of defines, kept on disk as the driver's binary.

A file is MAGIC, the SHA-256 of the binary, and the binary; its name is the hash of what was built,
with which options, for which device and driver. One that is damaged is built again: a driver that
gets noise may end the process.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from pyopencl.characterize import has_src_build_cache

from engine.backends.opencl.drivers.loader import cl, sub_group_sizes
from engine.backends.opencl.drivers.vectors import build_options
from engine.backends.opencl.source import OPTIONS, kept_folder, source
from engine.errors import KernelBuildFailed
from engine.kept import read_sealed, write_sealed
from engine.system import cores

FEWEST_LANES = 16
"""Lanes of a thread of Intel's Xe-HPC, at least."""

MAGIC = b"CutawayKernel1\n"

log = logging.getLogger("engine.kernels")


class ProgramKey(NamedTuple):
    """A family and its defines, sorted."""

    family: str
    defines: tuple[tuple[str, int | str], ...]

    @classmethod
    def of(cls, family: str, defines: Mapping[str, int | str]) -> "ProgramKey":
        return cls(family, tuple(sorted(defines.items())))


class Programs:
    """The built programs of one context. `progress` gets (built, wanted) while some are built."""

    def __init__(
        self,
        context: cl.Context,
        device: str,
        handle: cl.Device | None = None,
        cache: Path | None = None,
    ) -> None:
        """Built for `handle` alone, or for every device of the context; kept in `cache`."""
        self.progress: Callable[[int, int], None] = lambda built, wanted: None
        self._context = context
        self._handles = context.devices if handle is None else [handle]
        self._device = device
        self._built: dict[ProgramKey, cl.Program] = {}
        self._limits: dict[tuple[ProgramKey, str], int] = {}
        self._cache = cache or kept_folder("programs")
        self.numbers_in_memory = False

    def read_numbers_from_memory(self) -> None:
        """Build all programs anew, for a driver that takes no structs by value (`Launch.packs`)."""
        self.numbers_in_memory = True
        self._built.clear()
        self._limits.clear()

    def get(self, key: ProgramKey) -> cl.Program:
        """The program, built now if it is not yet. Raises `KernelBuildFailed`."""
        if key not in self._built:
            self._built[key] = self._build(key)
        return self._built[key]

    def group_limit(self, key: ProgramKey, kernel: str) -> int:
        """The most items that a group of a kernel may have: a device's own limit, or fewer where
        the kernel takes many registers. Raises `KernelBuildFailed`.
        """
        if (key, kernel) not in self._limits:
            made, handle = cl.Kernel(self.get(key), kernel), self._handles[0]
            what = cl.kernel_work_group_info.WORK_GROUP_SIZE
            limit: int = made.get_work_group_info(what, handle)  # type: ignore[assignment]
            self._limits[key, kernel] = limit
        return self._limits[key, kernel]

    def build_all(self, keys: Iterable[ProgramKey]) -> None:
        """Build what is missing, in threads: drivers compile without holding Python's lock."""
        missing = [key for key in dict.fromkeys(keys) if key not in self._built]
        if not missing:
            return
        self.progress(0, len(missing))
        with ThreadPoolExecutor(min(len(missing), cores())) as threads:
            for key, program in zip(missing, threads.map(self._build, missing), strict=True):
                self._built[key] = program
                self.progress(sum(m in self._built for m in missing), len(missing))

    def _build(self, key: ProgramKey) -> cl.Program:
        text = source(key.family)
        defines = [f"-D{name}={value}" for name, value in key.defines]
        options = [*OPTIONS, *build_options(), *_sub_groups(self._handles), *defines]
        options += [*_prefetch(self._handles), *registers(defines)]
        options += ["-DNUMBERS_IN_MEMORY"] if self.numbers_in_memory else []
        if len(self._handles) != 1 or has_src_build_cache(self._handles[0]):  # the driver keeps it
            return self._from_source(key, text, options)
        device = self._handles[0]
        facts = (text, options, device.name, device.version, device.driver_version)
        path = (
            self._cache
            / f"{sha256(repr((*facts, device.platform.version)).encode()).hexdigest()}.bin"
        )
        program = self._from_file(path, device, options)
        if program is None:
            program = self._from_source(key, text, options)
            keep_binary(path, binary_of(program, device))
        return program

    def _from_source(self, key: ProgramKey, text: str, options: list[str]) -> cl.Program:
        program = cl.Program(self._context, text)
        try:
            program.build(options, self._handles)
        except cl.Error as error:
            raise KernelBuildFailed(
                self._device, key.family, dict(key.defines), str(error)
            ) from None
        return program

    def _from_file(self, path: Path, device: cl.Device, options: list[str]) -> cl.Program | None:
        """The program that was built before; None where there is none, or it is damaged."""
        binary = kept_binary(path)
        if binary is None:
            return None
        try:
            program = cl.Program(self._context, [device], [binary])
            program._source = ""  # else pyopencl looks for a kernel of this name for each kernel
            program.build(options)
        except cl.Error as error:
            log.warning("%s: the driver refuses it (%s); the kernel is built again", path, error)
            return None
        return program


def lanes_of_thread(sizes: Sequence[int]) -> list[str]:
    """Build options for sub-groups of these sizes: 16 lanes where there are no fewer.

    Intel's compiler then begins with 32, which leaves each lane half as many registers; where
    there are fewer lanes to a thread it goes down to these by itself.
    """
    return ["-DSUB_GROUP=16"] if sizes and min(sizes) == FEWEST_LANES else []


def registers(defines: Sequence[str]) -> list[str]:
    """Build options for twice the registers a thread, which Intel's devices with matrix units have
    at half as many threads.
    """
    return ["-cl-intel-256-GRF-per-thread"] if "-DLARGE_GRF=1" in defines else []


def _sub_groups(handles: Sequence[cl.Device]) -> list[str]:
    if len(handles) != 1 or not handles[0].type & cl.device_type.GPU:
        return []
    return lanes_of_thread(sub_group_sizes(handles[0]))


def _prefetch(handles: Sequence[cl.Device]) -> list[str]:
    """Only processors prefetch. Rusticl goes by way of SPIR-V, which cannot say it: there the
    compiler would end the process.
    """
    some = all(one.type & cl.device_type.CPU for one in handles)
    return [] if some and "rusticl" not in handles[0].platform.name else ["-DNO_PREFETCH"]


def binary_of(program: cl.Program, device: cl.Device) -> bytes:
    """The binary that the driver built for one device of the context."""
    at = list(program.devices).index(device)
    return program.binaries[at]


def kept_binary(path: Path) -> bytes | None:
    """The binary that was kept; None where there is none, or the file is damaged."""
    try:
        return read_sealed(path, MAGIC)
    except FileNotFoundError:
        return None
    except OSError as error:
        log.warning("%s: %s; the kernel is built again", path, error.strerror)
        return None


def keep_binary(path: Path, binary: bytes) -> None:
    """Write a binary for the next run. A disk that is full or read-only costs that run its time."""
    try:
        write_sealed(path, MAGIC, binary)
    except OSError as error:
        log.info("%s is not kept: %s", path, error.strerror)
