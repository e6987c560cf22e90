"""Where bytes lie on the host while they pass from one device to another."""

from collections.abc import Sequence

from engine.device.backend import BufferType
from engine.graph.tensor import Tensor
from engine.scheduler.allocate import ArenaLayout, Lifetime, allocate
from engine.scheduler.split import Split


def staging_layout(splits: Sequence[Split], kind: BufferType, inputs: int) -> ArenaLayout:
    """Places in one piece of host memory whose first `inputs` bytes hold a step's inputs.

    Time counts splits: a storage stays from the one that made it to the last that it is copied to.
    """
    stays: dict[Tensor, tuple[int, int]] = {}
    for number, part in enumerate(splits):
        for copy in part.copies:
            if copy.staged:
                made = number if copy.made < 0 else copy.made
                first, _ = stays.get(copy.source, (made, number))
                stays[copy.source] = (min(first, made), number)
    lives = [
        Lifetime((storage,), (first,), last, kind.padded(storage.nbytes))
        for storage, (first, last) in stays.items()
    ]
    return allocate(lives, kind.max_size, kind.padded(inputs))
