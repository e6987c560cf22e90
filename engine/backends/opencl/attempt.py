"""`python -m engine.backends.opencl.attempt DEVICE WAY` tries one way to add four products of bytes
on a device, and prints why it cannot be used there, or an empty line (drivers/trials.py).
"""

import sys

import numpy as np

from engine.backends.opencl.drivers.device import Device, open_device
from engine.backends.opencl.drivers.loader import cl
from engine.backends.opencl.program import ProgramKey, Programs
from engine.errors import KernelBuildFailed

N = 1024


def attempt(device: Device, way: str) -> str:
    """Why a way cannot be used; empty where its numbers are those of NumPy."""
    draws = np.random.default_rng(1)
    a, b = (draws.integers(-128, 128, (N, 4)).astype(np.int8) for _ in range(2))
    a[:4], b[:4] = -128, [[-128], [127], [0], [-1]]
    c = draws.integers(-(2**24), 2**24, N).astype(np.int32)
    want = c + (a.astype(np.int32) * b).sum(1)
    context = cl.Context([device.handle])
    try:
        program = Programs(context, device.info.name, device.handle).get(
            ProgramKey.of("dot4_trial", {"DOT4": way})
        )
    except KernelBuildFailed:
        return "does not compile"
    queue = cl.CommandQueue(context, device.handle)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    got = np.zeros(N, np.int32)
    buffers = [cl.Buffer(context, flags, hostbuf=values) for values in (got, a, b, c)]
    kernel = cl.Kernel(program, "dot4_trial")
    try:
        kernel.set_args(*buffers)
        cl.enqueue_nd_range_kernel(queue, kernel, (N,), None)
        cl.enqueue_copy(queue, got, buffers[0])
    except cl.Error as error:
        return f"does not run: {error}"
    wrong = int((got != want).sum())
    return f"gives wrong sums ({wrong} of {N})" if wrong else ""


def main(name: str, way: str) -> None:
    """Print the answer on one line."""
    print(" ".join(attempt(open_device(name), way).split()), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
