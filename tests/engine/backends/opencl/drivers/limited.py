"""Run by test_vectors.py with CUTAWAY_VECTORS set: what a device's kernels are then.

python -m tests.engine.backends.opencl.drivers.limited logits DEVICE MODEL OUT.npy KV TOKEN...
python -m tests.engine.backends.opencl.drivers.limited registers DEVICE

The second prints which vector registers the code of a product uses, a line each.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from engine.backends.opencl.drivers.device import open_device
from engine.backends.opencl.drivers.loader import cl
from engine.backends.opencl.drivers.vectors import build_options
from engine.backends.opencl.launches.matmul_tiled import vector_defines
from engine.backends.opencl.source import OPTIONS, source
from engine.runner import load


def logits(device: str, path: str, out: str, kv: str, *words: str) -> None:
    """Of a prompt, and of the last token again by itself."""
    tokens = [int(word) for word in words]
    with load(path, device=device, ctx=64, kv=kv) as model:
        step = model.loaded.stepper.step
        parts = [
            step(tokens[:-1], 0, range(len(tokens) - 1)),
            step(tokens[-1:], len(tokens) - 1, [0]),
        ]
    np.save(out, np.concatenate(parts))


def registers(name: str) -> None:
    """Disassembles the machine code that lies in a driver's binary of a program."""
    device = open_device(name)
    program = cl.Program(cl.Context([device.handle]), source("matmul_tiled"))
    with tempfile.TemporaryDirectory() as folder:
        of_item = vector_defines(32, 4, device.info.traits)
        defines = [f"-D{name}={value}" for name, value in {"PANEL": 4, **of_item}.items()]
        program.build([*OPTIONS, *build_options(), *defines], [device.handle], folder)
        (binary,) = program.get_info(cl.program_info.BINARIES)
        seen = set[str]()
        for start in (found.start() for found in re.finditer(b"\x7fELF", binary)):
            code = Path(folder) / "code"
            code.write_bytes(binary[start:])
            done = subprocess.run(
                ["objdump", "-d", str(code)], stdout=subprocess.PIPE, text=True, check=False
            )
            seen.update(re.findall(r"%((?:[xyz]mm|k)\d+)", done.stdout))
    print(*sorted(seen), sep="\n")


if __name__ == "__main__":
    {"logits": logits, "registers": registers}[sys.argv[1]](*sys.argv[2:])
