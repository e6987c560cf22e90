"""Which family makes the launches of an operation: one row an operation, nothing is computed here.

`supports(node, type_of)` says whether the family has kernels for the node's types and layouts;
`make(node, type_of, traits)` gives the launches, in order. Both are pure.
"""

from collections.abc import Callable
from typing import NamedTuple

from engine.backends.base import TypeOf
from engine.backends.opencl.launch import MakeLaunches
from engine.graph.tensor import Op, Tensor

Supports = Callable[[Tensor, TypeOf], bool]


class Family(NamedTuple):
    """The two functions of a family for one operation."""

    supports: Supports
    make: MakeLaunches


FAMILIES: dict[Op, Family] = {}
