"""The two kernels of the roof compute what they say, and what is measured is plausible."""

import numpy as np
import pytest

from engine.backends.opencl import roof
from engine.device.backend import Component, Location, Owner
from engine.errors import NoMem
from engine.gguf.formats import F32, I8
from engine.graph.tensor import Role, leaf

OWNER = Owner(Component.STAGING)


def run(backend, launch, data):
    """The bytes of the launch's first argument, after it; `data` fills the others."""
    places = {}
    kind = backend.buffer_type(F32, (1, 1, 1, 1))
    tensors = [a for a in launch.args.values() if hasattr(a, "nbytes") and hasattr(a, "role")]
    for tensor in tensors:
        places[tensor] = Location(backend.allocate(kind, tensor.nbytes, OWNER), 0)
    for tensor in tensors[1:]:
        places[tensor].buffer.write(0, data)
    backend.prepare([(tensors[0], launch)], places.__getitem__).run()
    backend.synchronize()
    out = places[tensors[0]].buffer.read(0, tensors[0].nbytes)
    for place in places.values():
        place.buffer.free()
    return out


@pytest.mark.parametrize("each", [1, 2, 7])
def test_every_byte_is_read_once(either, each):
    traits = either.info.traits
    n = roof.items(traits)
    y = leaf("y", F32, (n,), Role.INPUT)
    x = leaf("x", I8, (n * each * roof.BLOCK,), Role.INPUT)
    words = np.random.default_rng(each).integers(0, 1 << 32, x.nbytes // 4, np.uint32)
    sums = run(either, roof.read_all(y, x, traits), words).view(np.uint32)
    assert sums.sum(dtype=np.uint32) == words.sum(dtype=np.uint32)
    if traits.is_cpu:  # each item its own run of neighbours
        assert np.array_equal(sums, words.reshape(n, -1).sum(1, dtype=np.uint32))


def test_every_multiplication_is_done(either):
    traits = either.info.traits
    y = leaf("y", F32, (roof.items(traits),), Role.INPUT)
    sums = run(either, roof.multiply_add(y, 3, traits), np.empty(0)).view(np.float32)
    lanes = roof.width(traits)
    chains = np.arange(1, roof.CHAINS)
    # v -> v / 2 + 1 three times is v / 8 + 1.75; the last chain starts at the item's number.
    items = np.arange(len(sums))
    wanted = lanes * (roof.CHAINS * 1.75 + (chains.sum() + items) / 8)
    assert np.allclose(sums, wanted, rtol=1e-6)


def test_measured_and_given_back(backend, monkeypatch):
    monkeypatch.setattr(roof, "BYTES", 8 << 20)
    before = backend.pool.used
    found = backend.roof()
    assert backend.pool.used == before
    # From the slowest board to the fastest card: what lies outside is a wrong unit.
    assert 1e8 < found.bytes_per_s < 1e14
    assert 1e8 < found.flops_per_s < 1e16
    monkeypatch.setattr(backend, "budget", 1 << 20)
    with pytest.raises(NoMem):
        backend.roof()
    assert backend.pool.used == before
