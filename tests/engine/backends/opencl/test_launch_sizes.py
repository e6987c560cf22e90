"""A decode step gives every core of a large processor something to do. No device."""

from dataclasses import replace
from math import prod

import pytest
from msgspec import structs

from engine.backends.opencl.launch import DeviceTraits
from engine.backends.opencl.launches import launches_of
from engine.backends.opencl.launches.attention_split import split_of
from engine.backends.opencl.lowering.fusions import fuse
from engine.backends.opencl.lowering.lower import lower
from engine.backends.opencl.tiles.layouts import TILED
from engine.backends.opencl.tuned import default
from engine.device.backend import PLAIN, BufferType
from engine.gguf.formats import F16, F32, I32, Q4_K
from engine.graph import ops
from engine.graph.graph import Graph
from engine.graph.op import VIEW_OPS, Op
from engine.graph.ops.attention import FusedAttention
from engine.graph.tensor import Role, Tensor, leaf

CORES = (1, 2, 4, 16, 64)
SHAPES = ((2048, 8192, 512), (4096, 14336, 1024))  # embedding, feed-forward, keys of 1B and 8B


def of_cores(cores: int) -> DeviceTraits:
    return DeviceTraits(True, cores, 4096, 1 << 20, vector_ints=8)


def type_of(tensor: Tensor) -> BufferType:
    return BufferType("d", TILED if tensor.fmt.quantized else PLAIN, 128, 1 << 40)


def x(*shape: int) -> Tensor:
    return leaf("x", F32, shape, Role.INPUT)


def w(k: int, m: int) -> Tensor:
    return leaf("w", Q4_K, (k, m), Role.WEIGHT)


def units(wanted: list[Tensor], traits: DeviceTraits) -> dict[Op, int]:
    """Work-groups of every product."""
    nodes = [t for t in Graph.of(wanted).nodes if t.op not in VIEW_OPS]
    kept = frozenset(t.storage for t in wanted)
    found = {}
    for node in fuse(lower(nodes, type_of, traits), kept, traits):
        for launch in launches_of(node, type_of, traits):
            if "matmul" in str(node.op):
                found[node.op] = prod(launch.global_size) // prod(launch.local_size or (1,))
    return found


@pytest.mark.parametrize("cores", CORES)
@pytest.mark.parametrize("shape", SHAPES, ids=("1B", "8B"))
def test_products_of_one_token(shape: tuple[int, int, int], cores: int) -> None:
    """At least one for each core, and so many that the last round leaves few of them idle."""
    e, f, kv = shape
    row = x(e, 1)
    qkv = [ops.matmul(w(e, m), row) for m in (e, kv, kv)]
    gate, up = (ops.matmul(w(e, f), row) for _ in range(2))
    down = ops.add(ops.matmul(w(f, e), ops.silu(gate, up)), row)
    for wanted in (qkv, [down]):
        for op, n in units(wanted, of_cores(cores)).items():
            rounds = -(-n // cores)
            assert n >= cores, (op, n)
            assert n / (rounds * cores) >= 0.75, (op, n, rounds)


@pytest.mark.parametrize("cores", [2, 24, 96])
@pytest.mark.parametrize("shape", SHAPES, ids=("1B", "8B"))
def test_products_of_a_prompt(shape: tuple[int, int, int], cores: int) -> None:
    """A unit takes as many columns as are tuned, or fewer: the last round leaves few cores idle."""
    e, f, kv = shape
    tuned = structs.replace(default(), chunk=512)
    prompt = x(e, 512)
    qkv = [ops.matmul(w(e, m), prompt) for m in (e, kv, kv)]
    gate, up = (ops.matmul(w(e, f), prompt) for _ in range(2))
    down = ops.add(ops.matmul(w(f, e), ops.silu(gate, up)), prompt)
    for wanted in (qkv, [down]):
        for op, n in units(wanted, replace(of_cores(cores), tuned=tuned)).items():
            rounds = -(-n // cores)
            assert n / (rounds * cores) >= 0.9, (op, n, rounds)
            assert cores > 2 or n in ((e + 2 * kv) / 32, f / 32, e / 32), (op, n)  # all columns


@pytest.mark.parametrize("cores", CORES)
@pytest.mark.parametrize("depth", [4096, 32768])
def test_attention_of_one_token_over_a_long_cache(cores: int, depth: int) -> None:
    traits = of_cores(cores)
    k, v = (leaf("k", F16, (128, 8, depth), Role.CACHE) for _ in range(2))
    seen = [leaf("s", I32, shape, Role.INPUT) for shape in ((4, 1), (2, depth), (1,))]
    node = ops.attention(x(128, 32, 1), k, v, *seen, scale=0.1)
    split = split_of(FusedAttention.of(node), traits)
    assert split.groups(8) >= min(cores, 8 * depth // traits.tuned.cells)
