"""Probed results as messages, in parts that a pipe takes at once."""

from collections.abc import Iterator, Sequence

import numpy as np

from engine.inside.strip import layer_of
from engine.protocol import ResultInfo, ResultPart
from engine.scheduler.probes import Probed
from engine.units import MIB

PART = MIB // 4
"""Elements that are sent at once."""


def result_parts(number: int, step: int, results: Sequence[Probed]) -> Iterator[ResultPart]:
    """For the request of that number, one result after the other."""
    for one in results:
        values = np.ascontiguousarray(one.values, "<f4")
        dims = list(values.shape[::-1])
        (name, occurrence), node = one.key, one.node
        where = (one.device, layer_of(name))
        info = ResultInfo(name, occurrence, step, node.op, node.fmt.name, dims, *where)
        flat = values.reshape(-1)
        for start in range(0, flat.size, PART):
            yield ResultPart(number, info, start, flat[start : start + PART].tobytes())
