"""The launches of a model's steps on a GPU, from its header alone, and their programs built.

`python -m engine.runner.programs DEVICE MODEL FOLDER` builds the programs of a decode and of a
prefill step, one after the other, and prints a line of JSON for each; the driver's binaries go to
FOLDER. A process of its own, so that a driver which crashes takes nobody with it.
"""

import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import msgspec

from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.drivers.device import Device, open_device
from engine.backends.opencl.launch import DeviceTraits, Launch
from engine.backends.opencl.launches import KERNEL_FAMILIES, launches_of
from engine.backends.opencl.lowering.fusions import fuse
from engine.backends.opencl.lowering.lower import lower
from engine.backends.opencl.program import ProgramKey, Programs, binary_of
from engine.backends.opencl.tiles.layouts import layout_for
from engine.device.backend import PLAIN, BufferType
from engine.errors import CutawayError
from engine.gguf.reader import open_gguf
from engine.graph.graph import Graph
from engine.graph.op import VIEW_OPS
from engine.graph.tensor import Role, Tensor
from engine.models.base import Output
from engine.models.build import BuiltModel, StepShape, build_model
from engine.weights.load import matmul_only

PROMPT, CONTEXT, BATCH = 512, 8192, 512
NO_LIMIT = 1 << 40


def steps(model: BuiltModel, traits: DeviceTraits) -> dict[str, list[Launch]]:
    """The launches of a decode step behind a context, which finds the best logits, and of a
    prompt's.
    """
    cells = model.buckets([PROMPT] * len(model.caches.caches))
    decode = StepShape(1, 1, cells, output=Output.BEST)
    prefill = StepShape(PROMPT, 1, cells)
    return {
        "decode": list(launches(model.build(decode)[1], traits)),
        "prefill": list(launches(model.build(prefill)[1], traits)),
    }


def launches(graph: Graph, traits: DeviceTraits) -> Iterator[Launch]:
    """All that a device runs of a graph; what it has no kernel for runs on the host."""
    tiled = matmul_only(graph)

    def type_of(tensor: Tensor) -> BufferType | None:
        if tensor.role not in (Role.WEIGHT, Role.CACHE):
            return None
        layout = layout_for(tensor.fmt, tensor.shape, traits) if tensor in tiled else PLAIN
        return BufferType("gpu:0", layout, 128, NO_LIMIT)

    nodes = [t for t in graph.nodes if t.op not in VIEW_OPS and t.op in KERNEL_FAMILIES]
    nodes = [t for t in nodes if KERNEL_FAMILIES[t.op].supports(t, type_of)]
    kept = frozenset(t.storage for t in (*graph.outputs, *graph.effects))
    for node in fuse(lower(nodes, type_of, traits), kept, traits):
        yield from launches_of(node, type_of, traits)


def built(device: Device, model: Path, folder: Path) -> Iterator[dict[str, Any]]:
    """Build each program once; what does not build has a `problem`. Raises `CutawayError`."""
    with open_gguf(model) as file:
        made = steps(build_model(file, CONTEXT, BATCH), device.info.traits)
    wanted = {
        ProgramKey.of(one.family, one.defines): step for step, some in made.items() for one in some
    }
    backend = OpenCLBackend(device)
    with TemporaryDirectory() as nothing:  # programs built before would take no time
        programs = Programs(backend.context, device.info.name, device.handle, Path(nothing))
        for key, step in wanted.items():
            yield _built(programs, key, folder, device) | {"step": step}
    backend.close()


def _built(programs: Programs, key: ProgramKey, folder: Path, device: Device) -> dict[str, Any]:
    start = perf_counter()
    record: dict[str, Any] = {"family": key.family, "defines": dict(key.defines)}
    try:
        binary = binary_of(programs.get(key), device.handle)
    except CutawayError as error:
        return record | {"problem": str(error)}
    path = folder / f"{key.family}-{sha256(repr(key).encode()).hexdigest()[:12]}.bin"
    record["seconds"] = round(perf_counter() - start, 3)
    try:
        path.write_bytes(binary)
    except OSError as error:
        return record | {"problem": f"{path.name} is not kept: {error.strerror}"}
    return record | {"file": path.name, "nbytes": len(binary)}


def main(name: str, model: str, folder: str) -> None:
    """Print each program as soon as it is built."""
    for record in built(open_device(name), Path(model), Path(folder)):
        print(msgspec.json.encode(record).decode(), flush=True)  # noqa: T201  the answer


if __name__ == "__main__":
    main(*sys.argv[1:])
