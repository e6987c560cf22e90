"""Packed copies and conversions."""

from itertools import permutations

import numpy as np
import pytest

from engine.backends.host.backend import HostBackend
from engine.gguf.formats import BF16, F16, F32, I32
from engine.graph import ops
from engine.graph.tensor import Role, leaf
from tests.kernels.harness import run


@pytest.mark.parametrize("axes", list(permutations(range(4))), ids=str)
def test_contiguous_puts_a_permutation_in_order(host: HostBackend, axes) -> None:
    x = leaf("x", F16, (2, 3, 4, 5), Role.INPUT)
    values = np.arange(120, dtype=np.float16).reshape(5, 4, 3, 2)
    turned = x.permute(*axes)
    copied = ops.contiguous(turned)
    assert copied.is_contiguous
    got = run(host, copied, {x: values})
    for i in np.ndindex(2, 3, 4, 5):
        moved = [0] * 4
        for source, axis in enumerate(axes):
            moved[axis] = i[source]
        assert got[tuple(moved[::-1])] == values[i[::-1]]


def test_same_type_copies_keep_every_bit(host: HostBackend) -> None:
    x = leaf("x", BF16, (4, 64), Role.INPUT)
    bits = np.random.default_rng(14).integers(0, 1 << 16, (64, 4), np.uint16)  # NaNs among them
    got = run(host, ops.contiguous(x.permute(1, 0)), {x: bits.view(np.uint8)})
    assert np.array_equal(got[0, 0], bits.T)


def test_casts(host: HostBackend) -> None:
    x = leaf("x", F32, (6,), Role.INPUT)
    values = np.float32([0, -1.75, 2.5, 1e-8, 70000, 3])
    for fmt, want in (
        (F16, [0, -1.75, 2.5, 0, np.inf, 3]),
        (I32, [0, -1, 2, 0, 70000, 3]),
    ):
        assert run(host, ops.cast(x, fmt), {x: values}).reshape(-1).tolist() == want


def test_bf16_rounds_to_nearest_and_ties_to_even(host: HostBackend) -> None:
    x = leaf("x", F32, (8,), Role.INPUT)
    cases = {
        0x3F808000: 0x3F80,  # a tie above an even pattern
        0x3F818000: 0x3F82,  # a tie above an odd one
        0x3F807FFF: 0x3F80,
        0x3F808001: 0x3F81,
        0x7F7FFFFF: 0x7F80,  # the largest float becomes infinite
        0xFF800000: 0xFF80,
        0x7F800001: 0x7FC0,  # a NaN stays one, though its only bit is cut off
        0xFFFFFFFF: 0xFFFF,
    }
    values = np.array(list(cases), np.uint32).view(np.float32)
    got = run(host, ops.cast(x, BF16), {x: values}).reshape(-1)
    assert got.tolist() == list(cases.values())
