"""Weights onto their devices: few buffers, exact records, progress, cancel."""

from collections.abc import Callable, Iterable, Mapping

from engine.backends.base import Backend, Buffer, BufferType, Component, Location, Owner
from engine.errors import Cancelled
from engine.gguf import GGUFFile
from engine.graph.graph import Graph
from engine.graph.tensor import Op, Role, Tensor

Progress = Callable[[int, int], None]


def matmul_only(graph: Graph) -> frozenset[Tensor]:
    """Weights whose every use is the unviewed first operand of a mulmat."""
    seen: set[Tensor] = set()
    spoiled: set[Tensor] = set()
    for node in graph.nodes:
        for i, source in enumerate(node.src):
            if source is None or source.role is not Role.WEIGHT:
                continue
            (seen if node.op is Op.MULMAT and i == 0 else spoiled).add(source)
    return frozenset(seen - spoiled)


def load_weights(
    file: GGUFFile,
    sources: Mapping[Tensor, str],
    backend_of: Callable[[Tensor], Backend],
    layer_of: Callable[[str], int | None],
    tiled: frozenset[Tensor],
    progress: Progress,
    cancelled: Callable[[], bool],
) -> dict[Tensor, Location]:
    """Allocate and upload every leaf; the host's are the mapped file itself.

    Weights of one layer and buffer type share a buffer. Raises `NoMem`, or `Cancelled`; what was
    allocated is freed then.
    """
    placed: dict[Tensor, Location] = {}
    groups: dict[tuple[Backend, BufferType, int | None], list[Tensor]] = {}
    for tensor in sources:
        backend = backend_of(tensor)
        if backend.is_host:
            placed[tensor] = backend.map(file.data(sources[tensor]))
            continue
        kind = backend.buffer_type(tensor.fmt, tensor.shape, tensor in tiled)
        groups.setdefault((backend, kind, layer_of(tensor.name)), []).append(tensor)
    try:
        for (backend, kind, layer), tensors in groups.items():
            placed.update(_allocate(backend, kind, layer, tensors))
        _upload(file, sources, backend_of, placed, progress, cancelled)
    except BaseException:
        free(placed.values())
        raise
    return placed


def free(placed: Iterable[Location]) -> None:
    """Give back the buffers behind locations, each once."""
    buffers: dict[int, Buffer] = {id(at.buffer): at.buffer for at in placed}
    for buffer in buffers.values():
        buffer.free()


def _allocate(
    backend: Backend, kind: BufferType, layer: int | None, tensors: list[Tensor]
) -> dict[Tensor, Location]:
    placed: dict[Tensor, Location] = {}
    pending: list[tuple[Tensor, int]] = []

    def flush() -> None:
        if pending:
            total = sum(size for _, size in pending)
            buffer = backend.allocate(kind, total, Owner(Component.WEIGHTS, layer))
            offset = 0
            for tensor, size in pending:
                placed[tensor] = Location(buffer, offset)
                offset += size
            pending.clear()

    try:
        for tensor in tensors:
            size = backend.allocation_size(kind, tensor.fmt, tensor.shape)
            if pending and sum(n for _, n in pending) + size > kind.max_size:
                flush()
            pending.append((tensor, size))
        flush()
    except BaseException:
        free(placed.values())
        raise
    return placed


def _upload(
    file: GGUFFile,
    sources: Mapping[Tensor, str],
    backend_of: Callable[[Tensor], Backend],
    placed: Mapping[Tensor, Location],
    progress: Progress,
    cancelled: Callable[[], bool],
) -> None:
    total = sum(t.nbytes for t in sources)
    done = 0
    progress(done, total)
    for tensor, source in sources.items():
        if cancelled():
            raise Cancelled("loading")
        backend = backend_of(tensor)
        if not backend.is_host:
            backend.upload(placed[tensor], tensor.fmt, tensor.shape, file.data(source))
        done += tensor.nbytes
        progress(done, total)
