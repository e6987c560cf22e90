"""Contents of a model's caches, for display."""

import numpy as np

from engine.models.build import BuiltModel
from engine.protocol import CacheCells


def cells_of(built: BuiltModel) -> list[CacheCells]:
    """Every cache with the layers that use it, then the slots of recurrent states."""
    held = [None if layer is None else layer.cache for layer in built.layers]
    caches = []
    for number, cache in enumerate(built.caches.caches):
        layers = [i for i, index in enumerate(held) if index == number]
        bits, positions = (np.ascontiguousarray(cache.cells[:, i], "<i4") for i in (0, 1))
        sight = (cache.window, cache.chunk, layers)
        caches.append(CacheCells(*sight, bits.tobytes(), positions.tobytes()))
    states = built.caches.states
    if states.n_slots:
        layers = [i for i, state in enumerate(built.states) if state is not None]
        last = np.where(states.bits != 0, states.read - 1, -1)
        columns = (np.asarray(x, "<i4").tobytes() for x in (states.bits, last, states.kept))
        caches.append(CacheCells(None, None, layers, *columns))
    return caches
