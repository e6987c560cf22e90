"""What launches pass is what kernels take: names, types and order, from the kernels' own source."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from engine.backends.opencl import roof
from engine.backends.opencl.launch import DeviceTraits, Launch, Shared
from engine.backends.opencl.launches import KERNEL_FAMILIES, launches_of
from engine.backends.opencl.launches.sizes import aligned
from engine.backends.opencl.lowering.fusions import fuse
from engine.backends.opencl.lowering.lower import lower
from engine.backends.opencl.packing import pack
from engine.backends.opencl.source import families
from engine.backends.opencl.tiles.layouts import layout_for
from engine.device.backend import PLAIN, BufferType
from engine.gguf.formats import F32, I8, Q6_K
from engine.graph.graph import Graph
from engine.graph.op import LOWERED_OPS, VIEW_OPS, Op
from engine.graph.tensor import Role, Tensor, leaf
from engine.selftest.case import Case
from engine.selftest.operands import Operands
from engine.selftest.table import chosen
from tests.kernels.sources import GIVEN, Parameters, kernels, members_of, parameters_of

DEVICES = {
    "vectors": DeviceTraits(True, 2, 4096, 1 << 15, vector_ints=16, slow_launches=True),
    "lanes": DeviceTraits(False, 40, 1024, 1 << 16),
    "wide": DeviceTraits(False, 40, 1024, 1 << 16, dot4="PLAIN"),
}
BUFFER = "__global char *"
TYPES: Mapping[type, str] = {np.int32: "int", np.int64: "long", np.float32: "float"}


def passed(launch: Launch) -> Parameters:
    """The parameters that a launch's arguments are for."""
    found: Parameters = []
    for name, value in launch.args.items():
        if value is None or isinstance(value, Tensor | Shared):
            found += [(BUFFER, f"{name}_buf"), ("long", f"{name}_off")]
        else:
            found.append((TYPES[type(value)], name))
    if not launch.packs:
        return found
    buffers = [one for one in found if one[0] == BUFFER]
    return [*buffers, GIVEN, *(one for one in found if one[0] != BUFFER)]


def lowered(case: Case, traits: DeviceTraits, fused: bool) -> tuple[Tensor, ...]:
    """A case's nodes as a device runs them; none if it has no kernels for one of them."""
    node = case.build(Operands())
    nodes = [t for t in Graph.of([node]).nodes if t.op not in VIEW_OPS]

    def type_of(tensor: Tensor) -> BufferType:
        tiled = case.tiled and tensor.role is Role.WEIGHT
        layout = layout_for(tensor.fmt, tensor.shape, traits) if tiled else PLAIN
        return BufferType("d", layout, 128, 1 << 40)

    if not all(KERNEL_FAMILIES[t.op].supports(t, type_of) for t in nodes):
        return ()
    plain = lower(nodes, type_of, traits)
    return fuse(plain, frozenset([node.storage]), traits) if fused else plain


def all_launches(traits: DeviceTraits) -> Iterator[tuple[Op, Launch]]:
    """Those of the self test's short table, fused and not, and those of the roof."""
    plain = BufferType("d", PLAIN, 128, 1 << 40)
    for case in chosen(quick=True):
        for fused in (True, False):
            for node in lowered(case, traits, fused):
                for launch in launches_of(node, lambda t: plain, traits):
                    yield node.op, launch
    x, y = leaf("x", I8, (1 << 20,), Role.INPUT), leaf("y", F32, (1 << 10,), Role.INPUT)
    yield Op.NONE, roof.read_all(y, x, traits)
    yield Op.NONE, roof.multiply_add(y, 8, traits)
    yield from ((Op.NONE, pack(x, x, fmt, 256, traits)) for fmt in (F32, Q6_K))


FUNCTION = re.compile(r"^( *)static \w+ (\w+)\(([^{}]*?)\) \{(.*?)^\1\}", re.MULTILINE | re.DOTALL)
LOCAL = re.compile(r"__local|\b(RECORDS|X|Q|PANELS)_IN\b")


def test_functions_with_local_memory_are_inlined() -> None:
    """PoCL sees a kernel's local memory in the kernel alone, and compilers put the address into a
    function that is called with no other: it would read zeros, or what another group has written.
    """
    folder = Path("kernels_cl")
    found = {path.stem: FUNCTION.findall(path.read_text()) for path in folder.glob("**/*.cl")}
    assert sum(map(len, found.values())) > 150
    assert not [
        (family, name)
        for family, functions in found.items()
        for _, name, parameters, _ in functions
        if LOCAL.search(parameters)
    ]


def test_launches_pass_what_kernels_take() -> None:
    """Every kernel there is, and every lowered operation, is launched by some case."""
    seen: dict[tuple[str, str, str], Launch] = {}
    ops: set[Op] = set()
    for traits in DEVICES.values():
        for op, launch in all_launches(traits):
            seen.setdefault((launch.family, launch.kernel, str(passed(launch))), launch)
            ops.add(op)
    wrong, taken = [], set()
    for launch in seen.values():
        program = kernels(launch.family, launch.defines)
        taken |= {(launch.family, name) for name in program}
        if program.get(launch.kernel) != passed(launch):
            wrong.append((launch.family, launch.kernel, program.get(launch.kernel), launch.args))
    assert not wrong
    assert taken == {(launch.family, launch.kernel) for launch in seen.values()}
    own = {"dot4_trial", "matrix_trial"}  # attempt.py starts it
    assert {family for family, _ in taken} == set(families()) - own
    assert ops >= LOWERED_OPS - {Op.RESULT}


def test_only_rows_that_begin_at_whole_loads_are_read_in_fours() -> None:
    lanes, whole = DEVICES["lanes"], leaf("x", F32, (64, 4), Role.INPUT)
    assert aligned(lanes, whole, None) == {"ALIGNED": 1}
    assert aligned(DEVICES["vectors"], whole) == {}
    assert aligned(lanes, whole, whole.view(4, (32,))) == {}
    assert aligned(lanes, whole, leaf("y", F32, (66, 4), Role.INPUT)) == {}


def test_no_kernel_needs_a_struct_by_value() -> None:
    """Its bytes are in memory for a driver that refuses one (`read_numbers_from_memory`)."""
    packing = {
        (one.family, one.kernel): one
        for traits in DEVICES.values()
        for _, one in all_launches(traits)
        if one.packs
    }
    assert len(packing) > 6
    for (family, kernel), launch in packing.items():
        taken = kernels(family, {**launch.defines, "NUMBERS_IN_MEMORY": 1})[kernel]
        assert {kind for kind, _ in taken[:-1]} == {BUFFER}
        assert taken[-1] == ("__global Numbers *", "numbers")


def test_parameters_are_read_as_c_has_them() -> None:
    text = "const __global char *x_buf, __global const  char* y_buf,\n long x_off, float eps"
    expected = [("__global char *", "x_buf"), ("__global char *", "y_buf")]
    assert parameters_of(text) == [*expected, ("long", "x_off"), ("float", "eps")]
    members = [("long", "x_off"), ("long", "y_off"), ("float", "eps")]
    assert members_of("\n  long x_off,\n  y_off; float eps;") == members
