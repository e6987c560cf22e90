"""What pyopencl is made to do, or not to do."""

import ctypes
import gc
import os
import shutil
import subprocess
import tracemalloc
from pathlib import Path

import pytest

from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.drivers.loader import LIBRARIES, cl, sweep

SOURCE = "__kernel void f(__global int *x, long n, float s, __global int *y) { *x = n * s + *y; }"


def test_kernel_objects_share_how_their_arguments_are_set(backend: OpenCLBackend) -> None:
    """A plan has hundreds of them."""
    program = cl.Program(backend.context, SOURCE).build()
    first = cl.Kernel(program, "f")
    tracemalloc.start()
    try:
        kernels = [cl.Kernel(program, "f") for _ in range(100)]
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held / len(kernels) < 1000
    assert {kernel.num_args for kernel in (first, *kernels)} == {4}


def test_folders_of_killed_programs_are_swept(tmp_path: Path) -> None:
    """Those of an hour ago; a younger one may be in use, and what is another's stays."""
    temporary, elsewhere = tmp_path / "tmp", tmp_path / "elsewhere"
    for folder in (temporary / "cutaway-icd-old", temporary / "cutaway-icd-new", elsewhere):
        folder.mkdir(parents=True)
        (folder / "00-x.icd").write_text("/lib/x.so")
    (temporary / "other-old").mkdir()
    (temporary / "cutaway-icd-link").symlink_to(elsewhere)
    for name in ("cutaway-icd-old", "other-old"):
        os.utime(temporary / name, (1e9, 1e9))
    os.utime(elsewhere, (1e9, 1e9))
    sweep(temporary)
    left = sorted(path.name for path in temporary.iterdir())
    assert left == ["cutaway-icd-link", "cutaway-icd-new", "other-old"]
    assert (elsewhere / "00-x.icd").exists()
    sweep(tmp_path / "nowhere")


@pytest.mark.skipif(shutil.which("ld") is None, reason="no linker")
def test_kernels_link_on_a_system_without_a_compiler(tmp_path: Path) -> None:
    """There are the libraries that programs run with, and none of the files to link against."""
    ctypes.CDLL("libgcc_s.so.1")
    with Path("/proc/self/maps").open() as maps:
        mapped = {Path(line.split()[-1]) for line in maps if "/" in line}
    for name in ("libc.so.6", "libgcc_s.so.1"):
        of_system = next(path for path in mapped if path.name == name)
        (tmp_path / name).symlink_to(of_system)
    command = ["ld", "-shared", "-nostdlib", "-o", tmp_path / "kernel.so", f"-L{tmp_path}"]
    asked = ["-lgcc", "--as-needed", "-lgcc_s", "--no-as-needed", "-lc"]  # as PoCL does
    without = subprocess.run([*command, *asked], capture_output=True, text=True, check=False)
    assert "cannot find -lgcc" in without.stderr
    assert str(LIBRARIES) in os.environ["LIBRARY_PATH"].split(os.pathsep)
    subprocess.run([*command, f"-L{LIBRARIES}", *asked], check=True)
    ctypes.CDLL(str(tmp_path / "kernel.so"))
