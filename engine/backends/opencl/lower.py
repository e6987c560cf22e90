"""Nodes as an OpenCL device runs them."""

from collections.abc import Sequence

from engine.backends.base import TypeOf
from engine.backends.opencl.launch import DeviceTraits
from engine.graph.tensor import Tensor


def lower(nodes: Sequence[Tensor], type_of: TypeOf, traits: DeviceTraits) -> tuple[Tensor, ...]:
    """The nodes to run, in order."""
    return tuple(nodes)
