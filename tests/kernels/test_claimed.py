"""Stages of one launch: items wait for who is at work, and for nobody who has not begun."""

import mmap
from dataclasses import replace
from time import sleep

import numpy as np

from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.commands import prepare
from engine.backends.opencl.drivers.device import Device, open_device
from engine.backends.opencl.drivers.loader import cl
from engine.backends.opencl.launch import Shared
from engine.backends.opencl.launches import launches_of
from engine.device.backend import Component, Location, Owner
from engine.gguf.formats import Q4_1
from engine.graph.graph import Graph
from engine.graph.op import VIEW_OPS, Op
from tests.kernels.test_fuse import check, feed_forward
from tests.kernels.values import Operands

M, HIDDEN = 544, 1056
TAKEN, MADE = [0, 2, 4], [1, 3, 5]  # counters of the three stages


def test_a_stage_waits_for_who_is_at_work_on_the_one_before(backend: OpenCLBackend) -> None:
    """Another item has taken the first stage, and all but one of its tiles are made."""
    traits = replace(backend.info.traits, is_cpu=True, slow_launches=True)
    handle = open_device(backend.name).handle
    slow = OpenCLBackend(Device(replace(backend.info, traits=traits), handle))
    y = feed_forward(Operands(), M, HIDDEN, Q4_1, 1)[1]
    graph = Graph.of([y])
    layouts = {
        t: slow.buffer_type(t.fmt, t.shape, matmul_only=t.shape[1] > 1) for t in graph.leaves
    }
    nodes = [t for t in graph.nodes if t.op not in VIEW_OPS]
    (chain,) = [
        t
        for t in slow.fuse(slow.lower(nodes, layouts.get), frozenset([y.storage]))
        if t.op is Op.FEED_CHAIN
    ]
    plain = slow.buffer_type(y.fmt, y.shape)
    room = slow.allocate(plain, 1 << 22, Owner(Component.GRAPH))
    counters = np.frombuffer(mmap.mmap(-1, 4096), np.int32)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
    shared = {Shared.COUNTERS: cl.Buffer(slow.context, flags, hostbuf=counters)}
    launches = [(chain, one) for one in launches_of(chain, lambda t: plain, slow.info.traits)]
    commands = prepare(
        slow.name, slow.queue, slow.programs, launches, lambda t: Location(room, 0), shared
    )
    tiles = M // 32
    counters[TAKEN[0]], counters[MADE[0]] = tiles, tiles - 1
    commands.run()
    sleep(0.05)
    assert not counters[TAKEN[1:]].any()
    counters[MADE[0]] = tiles
    slow.synchronize()
    assert not counters.any()
    room.free()
    slow.close()


def test_items_may_run_one_after_the_other(backend: OpenCLBackend) -> None:
    """Three of them on one core: the first makes all, and nothing is left for the others."""
    one = open_device(backend.name).limited(1)
    traits = replace(one.info.traits, is_cpu=True, slow_launches=True, compute_units=3)
    slow = OpenCLBackend(Device(replace(one.info, traits=traits), one.handle))
    made = Operands()
    wanted = feed_forward(made, M, HIDDEN, Q4_1, 1)
    check(slow, made, wanted, [Op.QUANTIZE, Op.FEED_CHAIN], "12 bits")
    slow.close()
