"""Run by test_unknown_cpu.py: logits of a model from a PoCL that compiles for a CPU with AVX2.

python -m tests.engine.backends.opencl.drivers.as_haswell MODEL OUT.npy KV TOKEN...
"""

import sys
from dataclasses import replace
from typing import Any

import numpy as np

from engine.backends.opencl.drivers import device
from engine.backends.opencl.drivers.loader import cl
from engine.backends.opencl.drivers.unknown_cpu import rename
from engine.runner import load

describe = device.describe


def described(name: str, platform: cl.Platform, handle: cl.Device) -> Any:
    """With the vectors of such a CPU."""
    info = describe(name, platform, handle)
    return replace(info, traits=replace(info.traits, vector_ints=8))


def main(path: str, out: str, kv: str, *words: str) -> None:
    """A prompt, and the last token again by itself."""
    device.describe = described
    device.name_unknown_cpu = lambda handle: rename(handle, b"haswell")
    (only,) = device.list_devices()
    tokens = [int(word) for word in words]
    with load(path, device=only.name, ctx=64, kv=kv) as model:
        step = model.loaded.stepper.step
        parts = [
            step(tokens[:-1], 0, range(len(tokens) - 1)),
            step(tokens[-1:], len(tokens) - 1, [0]),
        ]
    np.save(out, np.concatenate(parts))


if __name__ == "__main__":
    main(*sys.argv[1:])
