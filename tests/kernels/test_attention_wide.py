"""Attention of many queries by groups of lanes, with floats, and with halves as matrix units have
them, against float64 in NumPy. PoCL takes a minute to build each such program.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.backends.host.backend import HostBackend
from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.drivers.device import Device, open_device
from engine.gguf.formats import F32, I32, Q4_0, Q8_0, Format
from engine.graph import ops
from tests.kernels import test_attention_sequences as sequences
from tests.kernels.harness import nmse, run
from tests.kernels.test_attention import MASKS, Sizes, check
from tests.kernels.values import Operands

HALVES_MOST = 4e-8
"""Of exponentials and values in halves; queries have two."""


def as_gpu(backend: OpenCLBackend, halves: str) -> OpenCLBackend:
    """`backend` as a GPU with such a way to multiply halves."""
    changed = replace(backend.info.traits, is_cpu=False, halves=halves, own_local_memory=True)
    device = Device(replace(backend.info, traits=changed), open_device(backend.name).handle)
    return OpenCLBackend(device, context=backend.context, programs=backend.programs)


@pytest.fixture(scope="module", params=["", "HALVES"])
def wide(backend: OpenCLBackend, request: pytest.FixtureRequest) -> Iterator[OpenCLBackend]:
    opened = as_gpu(backend, request.param)
    yield opened
    opened.close()


def most(backend: OpenCLBackend) -> float:
    return HALVES_MOST if backend.info.traits.halves else 1e-11


one_driver = pytest.mark.full_cases("pocl")

SIZES = [
    Sizes(8, 2, 64, 64, 40, 300, 290),
    Sizes(3, 3, 80, 24, 70, 200, 200),
    Sizes(4, 1, 128, 128, 33, 130, 129),
    Sizes(2, 1, 256, 256, 64, 600, 555),
    Sizes(3, 1, 72, 192, 32, 64, 50),
]


# With floats, masks below meet the first two sizes, and the last has as odd ones as the others.
@pytest.mark.full_cases("pocl|^(?!.*HALVES).*dim=(128|256)")
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("mask", ["causal", "two sequences"])
def test_sizes(wide: OpenCLBackend, sizes: Sizes, mask: str) -> None:
    check(wide, mask, sizes, apart=4, most=most(wide))


@one_driver
@pytest.mark.parametrize("mask", MASKS)
def test_masks(wide: OpenCLBackend, mask: str) -> None:
    check(wide, mask, SIZES[0], apart=4, most=most(wide))
    check(wide, mask, SIZES[1], apart=4, softcap=5.0, with_sinks=True, most=most(wide))


@one_driver
@pytest.mark.parametrize("mask", ["causal", "two sequences"])
def test_scores_that_fall_with_the_distance(wide: OpenCLBackend, mask: str) -> None:
    check(wide, mask, SIZES[0], apart=4, most=most(wide), alibi=8.0)
    check(wide, mask, SIZES[1], apart=4, most=most(wide), alibi=4.0, softcap=5.0)


@one_driver
def test_sharp_scores_and_f32(wide: OpenCLBackend) -> None:
    """Queries are two halves: rounded to one, scores of some hundreds would be wrong."""
    check(wide, "window", SIZES[0], apart=4, spread=40.0, most=most(wide))
    check(wide, "causal", SIZES[0], fmt=F32, apart=4)


@one_driver
@pytest.mark.parametrize("name", ["mixed", "prompts"])
def test_pages_of_several_sequences(wide: OpenCLBackend, name: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(sequences, "nmse", lambda got, want: nmse(got, want) * 1e-11 / most(wide))
    sequences.check(wide, (8, 2, 64, 64), sequences.MIXES[name], alone=False, free=np.nan)


@one_driver
@pytest.mark.parametrize("fmt", [Q8_0, Q4_0], ids=str)
def test_caches_of_blocks(wide: OpenCLBackend, fmt: Format) -> None:
    """Against the host, which dequantises them; they too are rounded to halves."""
    made = Operands()
    q = made.make(F32, 64, 4, 40)
    k, v = (made.make(fmt, 64, 2, 128) for _ in "kv")
    cells = np.stack([np.ones(128), np.arange(128)], 1).astype(np.int32)
    spans = np.stack([np.ones(40), np.zeros(40), np.arange(40) + 60, np.zeros(40)], 1)
    seen = (spans.astype(np.int32), cells, np.array([120], np.int32))
    inputs = [made.put(I32, values) for values in seen]
    node = ops.attention(q, k, v, *inputs, scale=0.125)
    want = run(HostBackend(), node, made.values)
    assert nmse(run(wide, node, made.values), want) < (1e-7 if wide.info.traits.halves else 1e-11)
