"""What pyopencl is made to do, or not to do."""

import gc
import os
import tracemalloc
from pathlib import Path

from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.drivers.loader import cl, sweep

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
