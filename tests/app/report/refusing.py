"""`engine.runner.programs` of three families, with a compiler that refuses one of them.

Where CRASHES is set it takes its process down instead.
"""

import os
import sys
from collections.abc import Iterator

from engine.backends.opencl.launch import DeviceTraits, Launch
from engine.backends.opencl.program import ProgramKey, Programs
from engine.errors import KernelBuildFailed
from engine.graph.graph import Graph
from engine.runner import programs

FEW, REFUSED = ("rows", "rope_store", "norm_chain"), "rope_store"
build, everything = Programs.get, programs.launches


def few(graph: Graph, traits: DeviceTraits) -> Iterator[Launch]:
    found = {one.family: one for one in everything(graph, traits) if one.family in FEW}
    yield from (found[family] for family in FEW)


def refusing(self: Programs, key: ProgramKey) -> object:
    if key.family == REFUSED:
        if os.environ.get("CRASHES"):
            os.abort()
        raise KernelBuildFailed("a:0", key.family, {}, "error: no such register")
    return build(self, key)


if __name__ == "__main__":
    Programs.get, programs.launches = refusing, few
    programs.main(*sys.argv[1:])
