"""An arena of several buffers on a real device whose buffers are small."""

import json
import os
import subprocess
import sys

import pytest

from engine.backends.opencl.drivers.device import list_devices

# Three products of 128 MiB are there at once, where a buffer holds 256 MiB; then one of 512 MiB.
CODE = """
import json
import numpy as np
from engine.backends.host.backend import HostBackend
from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.drivers.device import open_device
from engine.errors import NoMem
from engine.gguf.formats import F32
from engine.graph import ops
from engine.graph.graph import Graph
from engine.graph.tensor import Role, leaf
from engine.scheduler.plan import Planner

device = OpenCLBackend(open_device("pocl:0"))
planner = Planner([device, HostBackend()], {})
x = leaf("x", F32, (8, 4096), Role.INPUT)
w = [leaf(f"w{i}", F32, (8, 8192), Role.INPUT) for i in range(3)]
made = [ops.matmul(one, x) for one in w]
total = ops.add(ops.add(made[0], made[1]), made[2])
corner = ops.contiguous(total.view(4 * 8000, (192, 4096), (4 * 8192,)))
plan = planner.plan(0, lambda: Graph.of([corner], made))
rng = np.random.default_rng(0)
values = {t: rng.integers(-3, 4, t.shape[::-1]).astype(np.float32) for t in (x, *w)}
(got,) = plan.run(values)
want = values[x][0, 0] @ sum(values[one][0, 0] for one in w).T
chunks = plan.outline.layouts["pocl:0"].chunks
large = ops.matmul(leaf("a", F32, (8, 16384), Role.INPUT), leaf("b", F32, (8, 8192), Role.INPUT))
try:
    planner.reserve(Graph.of([ops.contiguous(large.named("large").permute(1, 0))]))
    refused = None
except NoMem as error:
    refused = str(error)
equal = bool(np.array_equal(got[0, 0], want[:, 8000:]))
planner.close()
left = device.pool.used
print(json.dumps([device.info.max_allocation, chunks, equal, refused, left]))
"""


@pytest.mark.device
def test_chunks_of_a_device_with_little_memory() -> None:
    if not any(info.name == "pocl:0" for info in list_devices()):
        pytest.skip("no PoCL")
    env = os.environ | {"POCL_MEMORY_LIMIT": "1"}
    done = subprocess.run([sys.executable, "-c", CODE], env=env, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    most, chunks, equal, refused, left = json.loads(done.stdout)
    assert most < 384 << 20
    assert len(chunks) > 1
    assert all(0 < size <= most for size in chunks)
    assert sum(chunks) >= 3 * (128 << 20)
    assert equal
    assert refused.startswith("pocl:0: no room for graph large: 512.0 MiB wanted")
    assert left == 0
