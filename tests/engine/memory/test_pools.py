"""Room within control groups, read from files as the kernel writes them."""

import pytest

from engine.memory.pools import cgroup_room, device_pool, system_pool

MIB = 1 << 20


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
