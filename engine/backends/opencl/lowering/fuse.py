"""Fusion: lowered nodes that one launch makes together, so that a step is fewer launches.

A pattern (fusions.py) says what could become a single node; whether it may is decided for all alike
(rewrite.py): nobody else reads what vanishes, and no member passes another node that it depends on.
A fused node lists what it writes besides its own storage among its sources, as RESULTs, which
follow it.
"""

from collections.abc import Sequence

from engine.backends.opencl.launch import DeviceTraits
from engine.backends.opencl.lowering.fusions import PATTERNS
from engine.backends.opencl.lowering.rewrite import NodeList, Pattern
from engine.device.backend import Computes
from engine.errors import BadSetting
from engine.graph.tensor import Tensor
from engine.settings import FUSE


def fuse(
    nodes: Sequence[Tensor],
    kept: frozenset[Tensor],
    traits: DeviceTraits,
    computes: Computes | None = None,
) -> tuple[Tensor, ...]:
    """The nodes with every pattern applied that the setting allows.

    `kept` are storages that are read elsewhere: they do not vanish. In `computes` a fused node
    takes over what its members had. Raises `BadSetting`.
    """
    listed = NodeList(nodes, kept, traits, {} if computes is None else computes)
    for pattern in _wanted():
        for place in range(len(listed)):
            fusion = pattern(listed, place) if place in listed else None
            if fusion is not None:
                listed.apply(fusion)
    return listed.lowered()


def _wanted() -> tuple[Pattern, ...]:
    chosen = FUSE.get()
    known = {pattern.__name__: pattern for pattern in PATTERNS}
    if chosen is not None and not chosen <= known.keys():
        expected = f"all, none, or some of {','.join(known)}"
        raise BadSetting(FUSE.name, ",".join(sorted(chosen)), expected)
    return tuple(p for name, p in known.items() if chosen is None or name in chosen)
