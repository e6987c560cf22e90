"""Room within control groups, read from files as the kernel writes them."""

from ctypes.util import find_library

import pytest

from engine.device.backend import Component, Owner
from engine.errors import NoMem
from engine.memory.pools import (
    Free,
    MeasuredPool,
    cgroup_room,
    device_pool,
    free_bytes,
    listen,
    system_pool,
)

MIB = 1 << 20
OWNER = Owner(Component.WEIGHTS, 3)


@pytest.fixture
def tree(tmp_path):
    """Writes a control group: files by name, and the file that says where we are."""

    def write(own, groups):
        for folder, files in groups.items():
            (tmp_path / "fs" / folder).mkdir(parents=True, exist_ok=True)
            for name, text in files.items():
                (tmp_path / "fs" / folder / name).write_text(str(text))
        (tmp_path / "self").write_text(own)
        return cgroup_room(tmp_path / "fs", tmp_path / "self")

    return write


def test_version_2(tree):
    files = {
        "memory.max": 100 * MIB,
        "memory.current": 70 * MIB,
        "memory.stat": f"anon 5\ninactive_file {20 * MIB}\n",
    }
    assert tree("0::/a/b\n", {"a/b": files}) == 50 * MIB


def test_the_tightest_parent_counts(tree):
    child = {"memory.max": "max\n", "memory.current": 10 * MIB}
    parent = {"memory.max": 64 * MIB, "memory.current": 24 * MIB}
    assert tree("0::/a/b\n", {"a/b": child, "a": parent}) == 40 * MIB


def test_version_1(tree):
    files = {
        "memory.limit_in_bytes": 100 * MIB,
        "memory.usage_in_bytes": 90 * MIB,
        "memory.stat": f"total_inactive_file {5 * MIB}\n",
    }
    assert tree("4:cpu,cpuacct:/x\n3:memory:/docker/1\n", {"memory": files}) == 15 * MIB


def test_no_limit_anywhere(tree):
    assert tree("0::/\n", {".": {"memory.max": "max\n", "memory.current": 1}}) > 1 << 60
    assert tree("", {}) > 1 << 60


def test_over_its_limit_there_is_no_room(tree):
    files = {"memory.max": MIB, "memory.current": 2 * MIB}
    assert tree("0::/\n", {".": files}) == 0


def test_pools_are_shared():
    assert system_pool() is system_pool()
    assert system_pool().limit > 0
    assert device_pool("pci:01:00.0", 5) is device_pool("pci:01:00.0", 5)
    assert device_pool("pci:01:00.0", 5) is not device_pool("pci:02:00.0", 5)


def test_limits_follow_what_is_free():
    free = {"now": 100 * MIB}
    pool = MeasuredPool("x", 0, total=500 * MIB, reserve=30 * MIB)
    pool.sources = (lambda: None, lambda: (free["now"], "amd"))
    assert pool.measure() == Free(100 * MIB, "amd")
    assert pool.limit == 70 * MIB
    pool.take("a", OWNER, 40 * MIB)
    free["now"] = 60 * MIB
    pool.measure()
    assert (pool.limit, pool.left) == (70 * MIB, 30 * MIB)
    free["now"] = 10 * MIB  # somebody else has taken some
    pool.measure()
    assert pool.left == -20 * MIB
    with pytest.raises(NoMem, match="0.0 MiB left"):
        pool.take("a", OWNER, 1)


def test_without_anybody_to_ask_it_is_the_size_less_what_we_hold():
    pool = MeasuredPool("x", 0, total=500 * MIB)
    pool.measure()
    pool.take("a", OWNER, 40 * MIB)
    assert pool.free() == Free(460 * MIB, "engine")


def test_the_system_tells_what_is_free():
    assert system_pool().free().source == "system"
    assert 0 < system_pool().measure().size < system_pool().total


def test_reserves_of_devices_are_a_setting(monkeypatch):
    monkeypatch.setenv("CUTAWAY_RESERVE", "100")
    pool = device_pool("reserve:0", 1000 * MIB)
    assert (pool.limit, pool.reserve) == (900 * MIB, 100 * MIB)
    assert device_pool("reserve:1", 50 * MIB).limit == 0


def test_every_change_is_told():
    told = []
    stop = listen(told.append)
    pool = device_pool("told:0", 1000 * MIB)
    pool.take("a", OWNER, 3)
    with pytest.raises(NoMem):
        pool.take("b", OWNER, 2000 * MIB)
    pool.give_back("a", OWNER, 3)
    stop()
    pool.take("a", OWNER, 5)
    owners = {Owner(Component(c.component), c.layer, c.name) for c in told}
    assert owners == {OWNER}
    assert [(c.kind, c.pool, c.device, c.size, c.used) for c in told] == [
        ("allocate", "told:0", "a", 3, 3),
        ("refuse", "told:0", "b", 2000 * MIB, 3),
        ("free", "told:0", "a", 3, 0),
    ]
    assert [c.time_ns for c in told] == sorted(c.time_ns for c in told)
    pool.give_back("a", OWNER, 5)


OF_BOTH = Owner(Component.CACHE, 3, own=1, rest=Component.STATE)


def test_each_part_of_a_buffer_has_an_event():
    told = []
    stop = listen(told.append)
    pool = device_pool("parts:0", 1000 * MIB)
    pool.take("a", OF_BOTH, 3)
    pool.give_back("a", OF_BOTH, 3)
    stop()
    assert [(c.kind, c.size, c.used) for c in told] == [
        ("allocate", 1, 1),
        ("allocate", 2, 3),
        ("free", 1, 2),
        ("free", 2, 0),
    ]


def test_a_failing_listener_leaves_no_freed_byte_counted():
    pool = device_pool("failing:0", 1000 * MIB)
    pool.take("a", OF_BOTH, 3)

    def fail(event):
        raise OSError("no space left")

    stop = listen(fail)
    try:
        with pytest.raises(OSError, match="no space left"):
            pool.give_back("a", OF_BOTH, 3)
    finally:
        stop()
    assert pool.taken == {}


def test_nvidias_library_is_asked_only_where_it_is_there():
    library = find_library("nvidia-ml")
    answer = free_bytes("01:00.0")
    assert answer is None or (library is not None and answer > 0)
