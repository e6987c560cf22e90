"""The only place that imports pyopencl: everything else takes `cl` from here.

Importing this module hands the drivers that were found to the loader. `platforms()` is empty when
no driver works; a driver that cannot be loaded is skipped by the loader and hurts no other.
"""

import ctypes
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from engine.backends.opencl.drivers.find import ONLY, Driver, find_drivers
from engine.backends.opencl.drivers.vectors import library_of, limit_drivers
from engine.backends.opencl.source import kept_folder

# PoCL keeps its own cache of built kernels; it reads this when it is first used.
os.environ.setdefault("POCL_CACHE_DIR", str(kept_folder("pocl")))
# PoCL links kernels as a compiler does, with files that only a compiler's packages bring. Where the
# system has none, `ld` finds ours: scripts that name the libraries which every system has.
LIBRARIES = Path(__file__).parent / "libraries"
_paths = os.environ.get("LIBRARY_PATH", "").split(os.pathsep)
if str(LIBRARIES) not in _paths:
    os.environ["LIBRARY_PATH"] = os.pathsep.join(filter(None, (*_paths, str(LIBRARIES))))
# Its cache of how arguments are set is a pickle in a folder of all programs, which fails where the
# home is full or read-only, and where the file is damaged. Built kernels are kept in program.py.
os.environ["PYOPENCL_NO_CACHE"] = "1"
limit_drivers()

import pyopencl as cl  # noqa: E402
from pyopencl import invoker  # noqa: E402

__all__ = ["cl", "launcher", "platforms", "set_bytes", "sub_group_sizes", "sweep"]

PREFIX = "cutaway-icd-"
ABANDONED = 3600.0  # seconds after which nobody loads drivers from a folder any more


def _ignore(text: str) -> None:
    """Takes what compilers say about a program that did build; pyopencl would warn of it."""


cl.compiler_output = _ignore


def _keep_invokers() -> None:
    """pyopencl generates code that sets a kernel's arguments for each kernel object: 0.3 ms and
    5 kB, where a plan has hundreds. Kernels with equal arguments share it.
    """
    module: Any = invoker
    make = getattr(module, "generate_enqueue_and_set_args", None)
    if make is None:
        return
    kept: dict[object, Any] = {}

    def of_kernel(*args: object, devs: Sequence[cl.Device], **flags: object) -> Any:
        key = (*args, *sorted(flags.items()))
        if key not in kept:
            kept[key] = make(*args, devs=devs, **flags)
        return kept[key]

    module.generate_enqueue_and_set_args = of_kernel


_keep_invokers()


def _leave_out_headers() -> None:
    """Builds name no folder of headers: kernels here include none of pyopencl's, and since built
    programs are kept under their options, each environment would build all of them anew.
    """
    vars(cl).get("_DEFAULT_INCLUDE_OPTIONS", []).clear()


_leave_out_headers()

# Sets an argument to a number's bytes: `set_arg` takes 7 us to see that a number is no buffer.
set_bytes: Callable[[cl.Kernel, int, bytes], None] = getattr(
    cl.Kernel, "_set_arg_buf", cl.Kernel.set_arg
)


# pyopencl always makes an event of a launch, and lacks some vendors' device queries.
_library = ctypes.CDLL(str(import_module("pyopencl._cl").__file__))
SUB_GROUP_SIZES = 0x4108


def sub_group_sizes(device: cl.Device) -> list[int]:
    """The lanes that a thread of Intel's devices may have; none where a driver does not report."""
    get_info = getattr(_library, "clGetDeviceInfo", None)
    if get_info is None or "cl_intel_required_subgroup_size" not in device.extensions:
        return []
    sizes, used = (ctypes.c_size_t * 16)(), ctypes.c_size_t()
    handle = ctypes.c_void_p(device.int_ptr)
    failed = get_info(handle, SUB_GROUP_SIZES, ctypes.sizeof(sizes), sizes, ctypes.byref(used))
    return [] if failed else list(sizes)[: used.value // ctypes.sizeof(ctypes.c_size_t)]


_enqueue = getattr(_library, "clEnqueueNDRangeKernel", None)
if _enqueue is not None:
    pointer, count = ctypes.c_void_p, ctypes.c_uint
    _enqueue.argtypes = [pointer, pointer, count, *[pointer] * 3, count, pointer, pointer]


def launcher(
    kernel: cl.Kernel, size: Sequence[int], local: Sequence[int] | None
) -> Callable[[cl.CommandQueue], bool]:
    """A function that queues a launch without an event; false where that fails, for a reason that
    pyopencl's own function raises.
    """
    if _enqueue is None:
        return lambda queue: False
    queued, counts, handle = _enqueue, ctypes.c_size_t * len(size), kernel.int_ptr
    sizes, locals_ = counts(*size), None if local is None else counts(*local)
    arguments = (handle, len(size), None, sizes, locals_, 0, None, None)
    return lambda queue: queued(queue.int_ptr, *arguments) == cl.status_code.SUCCESS


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def sweep(temporary: Path) -> None:
    """Remove the drivers' folders of programs that were killed while they loaded them."""
    for folder in temporary.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if not folder.is_symlink() and time.time() - folder.stat().st_mtime > ABANDONED:
                shutil.rmtree(folder, ignore_errors=True)


def _load(drivers: Sequence[Driver]) -> list[cl.Platform]:
    sweep(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
        for i, driver in enumerate(drivers):
            (Path(folder) / f"{i:02}-{driver.name}.icd").write_text(library_of(driver), "utf-8")
        # The loader looks beside PYOPENCL_HOME too; those drivers are in the folder already.
        with _environment(OCL_ICD_VENDORS=folder, PYOPENCL_HOME=folder):
            try:
                found = cl.get_platforms()
            except cl.Error:  # what the loader says when there is none
                return []
    return list({platform.int_ptr: platform for platform in found}.values())


def _chosen() -> list[Driver]:
    only = os.environ.get(ONLY)
    return [d for d in find_drivers() if only is None or d.library == only]


_platforms = _load(_chosen())


def platforms() -> list[cl.Platform]:
    """The platforms of every driver that loads, each once."""
    return _platforms
