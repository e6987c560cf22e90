"""Programs: a family built once per set of defines, kept on disk."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from engine.backends.opencl.caches import kept_folder
from engine.backends.opencl.drivers.loader import cl
from engine.backends.opencl.drivers.vectors import build_options
from engine.backends.opencl.source import OPTIONS, source
from engine.errors import KernelBuildFailed

# pyopencl holds its lock for milliseconds; an older one was left by a process that was killed.
STALE_SECONDS = 10.0


class ProgramKey(NamedTuple):
    """A family and its defines, sorted."""

    family: str
    defines: tuple[tuple[str, int | str], ...]

    @classmethod
    def of(cls, family: str, defines: Mapping[str, int | str]) -> "ProgramKey":
        return cls(family, tuple(sorted(defines.items())))


class Programs:
    """The built programs of one context. `progress` hears (built, wanted) while some are built."""

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
        self._cache = cache or kept_folder("programs")

    def get(self, key: ProgramKey) -> cl.Program:
        """The program, built now if it is not yet. Raises `KernelBuildFailed`."""
        if key not in self._built:
            self._built[key] = self._build(key)
        return self._built[key]

    def build_all(self, keys: Iterable[ProgramKey]) -> None:
        """Build what is missing, in threads: drivers compile without holding Python's lock."""
        missing = [key for key in dict.fromkeys(keys) if key not in self._built]
        if not missing:
            return
        self.progress(0, len(missing))
        cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
        with ThreadPoolExecutor(min(len(missing), cores)) as threads:
            for key, program in zip(missing, threads.map(self._build, missing), strict=True):
                self._built[key] = program
                self.progress(sum(m in self._built for m in missing), len(missing))

    def _build(self, key: ProgramKey) -> cl.Program:
        program = cl.Program(self._context, source(key.family))
        defines = [f"-D{name}={value}" for name, value in key.defines]
        _drop_stale_lock(self._cache)
        try:
            program.build([*OPTIONS, *build_options(), *defines], self._handles, str(self._cache))
        except cl.Error as error:
            raise KernelBuildFailed(
                self._device, key.family, dict(key.defines), str(error)
            ) from None
        return program


def _drop_stale_lock(folder: Path) -> None:
    lock = folder / "lock"
    try:
        if time.time() - lock.stat().st_mtime > STALE_SECONDS:
            lock.unlink()
    except OSError:  # none there, or another process was quicker
        return
