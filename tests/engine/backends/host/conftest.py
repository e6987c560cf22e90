"""The host backend, with a pool of its own."""

import pytest

from engine.backends.host.backend import HostBackend
from engine.device.backend import MemoryPool


@pytest.fixture
def host() -> HostBackend:
    """16 MiB of room: enough for every case here, and nothing of the process's pool is taken."""
    return HostBackend(MemoryPool("test", 16 << 20))


@pytest.fixture(autouse=True)
def _all_given_back(host: HostBackend):
    yield
    assert host.pool.used == 0
