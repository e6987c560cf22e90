"""`python -m engine.backends.opencl.attempt DEVICE WAY` tries one way to add four products of bytes
on a device, or to multiply fragments of matrices, and prints why it cannot be used there, or an
empty line (drivers/trials.py).
"""

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.backends.opencl.drivers.device import Device, open_device
from engine.backends.opencl.drivers.loader import cl
from engine.backends.opencl.drivers.trials import MATRIX
from engine.backends.opencl.launch import HALVES
from engine.backends.opencl.launches.matmul_tiled import SUB_GROUPS
from engine.backends.opencl.launches.quantize import WIDE_ITEMS
from engine.backends.opencl.launches.sizes import Defines
from engine.backends.opencl.program import ProgramKey, Programs
from engine.errors import KernelBuildFailed

N = 1024
SIDE = 64
PLAIN_WAYS = ("BYTES", "HALVES")
"""Fragments without matrix units."""

MATRIX_WAYS = (*MATRIX, *PLAIN_WAYS)
Array = NDArray[Any]


def attempt(device: Device, way: str) -> str:
    """Why a way cannot be used; empty where its numbers are those of NumPy."""
    if way not in MATRIX_WAYS:
        return _tried(device, "dot4_trial", {"DOT4": way}, *_dots())
    return next(filter(None, (_tried(device, *one) for one in _matrices(way))), "")


def _dots() -> tuple[Array, list[Array], tuple[int, ...] | None]:
    """Sums of four products of bytes, and what they are of."""
    draws = np.random.default_rng(1)
    a, b = (draws.integers(-128, 128, (N, 4)).astype(np.int8) for _ in range(2))
    a[:4], b[:4] = -128, [[-128], [127], [0], [-1]]
    c = draws.integers(-(2**24), 2**24, N).astype(np.int32)
    return c + (a.astype(np.int32) * b).sum(1, dtype=np.int32), [a, b, c], None


def _matrices(way: str) -> Iterator[tuple[str, Defines, Array, list[Array], tuple[int, ...]]]:
    """One step of 64 x 64 products; of bytes of both lengths that kernels take."""
    draws = np.random.default_rng(2)
    halves = way in HALVES
    for sums in (1,) if halves else (1, 2):
        k = 16 if halves else 32 // sums
        if way in PLAIN_WAYS:
            k = 2 if halves else 4
        kind = np.float16 if halves else np.int8
        a, x = (draws.integers(-127, 128, (SIDE, k)).astype(kind) for _ in range(2))
        want = (x.astype(np.float32) @ a.astype(np.float32).T).reshape(-1)
        defines: dict[str, int | str] = {"X_BITS": 16} if halves else {"X_DIGITS": 1, "SUMS": sums}
        if way not in PLAIN_WAYS:
            defines |= {"MATRIX": way}
        if way in SUB_GROUPS:
            defines["SUB_GROUP"] = SUB_GROUPS[way]
        yield "matrix_trial", defines, want, [a, x], (WIDE_ITEMS,)


def _tried(
    device: Device,
    family: str,
    defines: Defines,
    want: Array,
    inputs: list[Array],
    group: tuple[int, ...] | None,
) -> str:
    context = cl.Context([device.handle])
    try:
        program = Programs(context, device.info.name, device.handle).get(
            ProgramKey.of(family, defines)
        )
    except KernelBuildFailed:
        return "does not compile"
    queue = cl.CommandQueue(context, device.handle)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    got = np.zeros_like(want)
    buffers = [cl.Buffer(context, flags, hostbuf=values) for values in (got, *inputs)]
    kernel = cl.Kernel(program, family)
    try:
        kernel.set_args(*buffers)
        cl.enqueue_nd_range_kernel(queue, kernel, group or (len(want),), group)
        cl.enqueue_copy(queue, got, buffers[0])
    except cl.Error as error:
        return f"does not run: {error}"
    wrong = int((got != want).sum())
    return f"gives wrong sums ({wrong} of {len(want)})" if wrong else ""


def main(name: str, way: str) -> None:
    """Print the answer on one line."""
    print(" ".join(attempt(open_device(name), way).split()), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
