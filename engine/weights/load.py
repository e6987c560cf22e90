"""Weights onto their devices: few buffers, exact records, progress, cancel."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import NamedTuple

from engine.device.backend import REPACKED, Backend, Buffer, BufferType, Location, Owner, Upload
from engine.gguf import GGUFFile
from engine.graph.graph import Graph
from engine.graph.op import Op
from engine.graph.ops.matmul import Matmul
from engine.graph.tensor import Role, Tensor
from engine.units import MIB

READ_AHEAD, AT_ONCE = 128 << 20, 16 << 20
"""Bytes that are requested from the system before they are needed, and in one request."""


@dataclass(frozen=True)
class Allocation:
    """One buffer to be made, and the tensors in it with their padded sizes, in order."""

    backend: Backend
    type: BufferType
    owner: Owner
    tensors: tuple[tuple[Tensor, int], ...]

    @property
    def size(self) -> int:
        return sum(size for _, size in self.tensors)

    def locations(self, buffer: Buffer) -> Iterator[tuple[Tensor, Location]]:
        """Where each tensor lies in it."""
        offset = 0
        for tensor, size in self.tensors:
            yield tensor, Location(buffer, offset)
            offset += size


def matmul_only(graph: Graph) -> frozenset[Tensor]:
    """Weights whose every use is the unviewed first operand of a matrix product: of a matmul, or
    experts of a matmul_id. Products that must not round their activations count for floats only.
    """
    multiplied: set[Tensor] = set()
    other_use: set[Tensor] = set()
    for node in graph.nodes:
        for i, source in enumerate(node.src):
            if source is not None and source.role is Role.WEIGHT:
                (multiplied if i == 0 and _is_product(node, source) else other_use).add(source)
    return frozenset(multiplied - other_use)


def _is_product(node: Tensor, weight: Tensor) -> bool:
    if node.op is not Op.MATMUL:
        return node.op is Op.MATMUL_ID
    exact = Matmul.of(node).full_precision and weight.fmt.quantized
    return weight.shape[2] == 1 and not exact


def plan_weights(
    tensors: Iterable[Tensor],
    backend_of: Callable[[Tensor], Backend],
    owner_of: Callable[[Tensor], Owner],
    tiled: frozenset[Tensor],
) -> list[Allocation]:
    """The buffers for weights that do not stay in the mapped file: one for each device, owner
    and layout, more where a buffer would pass the device's largest.
    """
    groups: dict[tuple[Backend, BufferType, Owner], list[Tensor]] = {}
    for tensor in tensors:
        backend = backend_of(tensor)
        if not backend.is_host:
            kind = backend.buffer_type(tensor.fmt, tensor.shape, tensor in tiled)
            groups.setdefault((backend, kind, owner_of(tensor)), []).append(tensor)
    return [
        allocation
        for (backend, kind, owner), members in groups.items()
        for allocation in _cut(backend, kind, owner, members)
    ]


def _cut(
    backend: Backend, kind: BufferType, owner: Owner, tensors: Sequence[Tensor]
) -> list[Allocation]:
    runs: list[list[tuple[Tensor, int]]] = [[]]
    for tensor in tensors:
        size = backend.allocation_size(kind, tensor.fmt, tensor.shape)
        if runs[-1] and sum(n for _, n in runs[-1]) + size > kind.max_size:
            runs.append([])
        runs[-1].append((tensor, size))
    return [Allocation(backend, kind, owner, tuple(run)) for run in runs]


def repacked(plan: Iterable[Allocation]) -> list[str]:
    """One line on the types whose weights take more on devices than in the file; or no line."""
    grown: dict[str, list[tuple[int, int]]] = {}
    for allocation in plan:
        if allocation.type.layout == REPACKED:
            for tensor, size in allocation.tensors:
                grown.setdefault(tensor.fmt.name, []).append((tensor.nbytes, size))
    each = [
        f"{name} x {len(sizes)} {sum(n for n, _ in sizes) / MIB:.1f} -> "
        f"{sum(n for _, n in sizes) / MIB:.1f} MiB"
        for name, sizes in sorted(grown.items())
    ]
    return [f"weights repacked for their device: {', '.join(each)}"] if each else []


def allocate(plan: Iterable[Allocation], placed: dict[Tensor, Location]) -> None:
    """Make the buffers, and say in `placed` where each tensor lies. Raises `NoMem`.

    What was made before that is in `placed` too, for the caller to free.
    """
    for wanted in plan:
        filled_later = all(t.role is Role.WEIGHT for t, _ in wanted.tensors)
        buffer = wanted.backend.allocate(wanted.type, wanted.size, wanted.owner, not filled_later)
        try:
            placed.update(wanted.locations(buffer))
        except BaseException:
            buffer.free()
            raise


class InFile(NamedTuple):
    """A weight in its file."""

    file: GGUFFile
    name: str


def fill(
    placed: Mapping[Tensor, Location],
    backend_of: Callable[[Tensor], Backend],
    stored: Callable[[Tensor], InFile],
) -> Generator[int, None, None]:
    """Fill placed weights from their files, device by device. Yields how many of their bytes are
    done since the last time; closed early, it leaves nothing under way.

    What is next is read ahead from the disk, and what is done leaves this process's memory.
    """
    by_device: dict[Backend, list[Tensor]] = {}
    for tensor in placed:
        by_device.setdefault(backend_of(tensor), []).append(tensor)
    for backend, tensors in by_device.items():
        weights = {tensor: stored(tensor) for tensor in tensors}
        uploads = (
            Upload(placed[tensor], tensor.fmt, tensor.shape, file.data(name))
            for tensor, (file, name) in weights.items()
        )
        yield from _followed(weights, backend.upload(uploads))
        for file in dict.fromkeys(file for file, _ in weights.values()):
            file.drop_pages()  # The system maps pages around those that are touched.


def _followed(
    weights: Mapping[Tensor, InFile], upload: Generator[int, None, None]
) -> Generator[int, None, None]:
    """An upload of these, in order; their files are read ahead of it, and dropped behind."""
    ahead = (
        (file, name, start, min(AT_ONCE, tensor.nbytes - start))
        for tensor, (file, name) in weights.items()
        for start in range(0, tensor.nbytes, AT_ONCE)
    )
    done = requested = 0
    with closing(upload):
        for tensor, (file, name) in weights.items():
            start = 0
            while start < tensor.nbytes:
                while requested < done + READ_AHEAD and (following := next(ahead, None)):
                    following[0].read_ahead(*following[1:])
                    requested += following[3]
                size = next(upload)
                file.drop_read(name, start, size)
                start += size
                done += size
                yield size


def free(placed: Iterable[Location]) -> None:
    """Give back the buffers behind locations, each once."""
    buffers: dict[int, Buffer] = {id(at.buffer): at.buffer for at in placed}
    with ExitStack() as stack:  # each of them, should another fail
        for buffer in buffers.values():
            stack.callback(buffer.free)
