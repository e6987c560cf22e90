"""What pyopencl is made to do, or not to do."""

import gc
import tracemalloc

from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.drivers.loader import cl

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
