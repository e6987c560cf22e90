"""The records: what they print and log, and what becomes of a plan."""

import pytest

from engine.device.backend import Component, MemoryPool, Owner
from engine.errors import NoMem
from engine.memory.records import BackendMemory, MemoryEntry, Status, now
from engine.protocol import MemoryRow

MIB = 1 << 20
PLANNED = [
    MemoryRow("gpu:0", "weights", 1, 30 * MIB, "planned"),
    MemoryRow("gpu:0", "cache", 1, 4 * MIB, "planned"),
    MemoryRow("gpu:0", "weights", 2, 10 * MIB, "planned"),
    MemoryRow("gpu:0", "vision", 2, 5 * MIB, "planned"),
    MemoryRow("gpu:0", "graph", None, 7 * MIB, "planned"),
    MemoryRow("intel:0", "weights", 0, 30 * MIB, "planned"),
    MemoryRow("intel:0", "cache", 0, 4 * MIB, "planned"),
    MemoryRow("host", "input", None, 9 * MIB, "mapped"),
    MemoryRow("host", "staging", None, MIB, "planned"),
]
NAMES = ("gpu:0", "intel:0", "host")


@pytest.fixture
def planned() -> BackendMemory:
    return BackendMemory.of(PLANNED, NAMES, 2)


def test_rows_come_back(planned: BackendMemory) -> None:
    def key(row: MemoryRow) -> str:
        return str(row)

    assert sorted(planned.rows(), key=key) == sorted(PLANNED, key=key)


def test_the_log_goes_by_component_and_device_and_skips_what_is_empty(
    planned: BackendMemory,
) -> None:
    assert planned.log_lines() == [
        "model weights device=gpu:0 size=40.0 MiB",
        "model weights device=intel:0 size=30.0 MiB",
        "model weights in the mapped file device=host size=9.0 MiB",
        "vision device=gpu:0 size=5.0 MiB",
        "kv cache device=gpu:0 size=4.0 MiB",
        "kv cache device=intel:0 size=4.0 MiB",
        "compute graph device=gpu:0 size=7.0 MiB",
        "staging device=host size=1.0 MiB",
        "total memory size=91.0 MiB",
    ]
    assert BackendMemory.of([], NAMES, 2).log_lines() == []


def test_printing_names_only_devices_with_something() -> None:
    rows = [
        MemoryRow("a", "weights", 1, 5, "allocated"),
        MemoryRow("a", "cache", 0, 7, "failed"),
        MemoryRow("a", "graph", None, 9, "planned"),
        MemoryRow("host", "input", None, 3, "mapped"),
    ]
    text = str(BackendMemory.of(rows, ("a", "b", "host"), 1))
    assert text == (
        "{InputWeights:3M Devices:[{ID:a Weights:[0U 5A] Cache:[7F 0U] Graph:9U} {} {}]}"
    )


def test_entries_add_up_to_the_worst_status() -> None:
    allocated, failed = MemoryEntry(3, Status.ALLOCATED), MemoryEntry(4, Status.FAILED)
    assert str(allocated + failed) == "7F"
    assert str(allocated + MemoryEntry(4)) == "7U"
    assert allocated + MemoryEntry() == MemoryEntry() + allocated == allocated


def test_a_layer_is_its_weights_and_cache_and_the_output_block_has_the_vision_part(
    planned: BackendMemory,
) -> None:
    gpu = planned.devices[0]
    assert [gpu.layer(i) for i in range(3)] == [0, 34 * MIB, 15 * MIB]


def test_what_becomes_of_a_plan(planned: BackendMemory) -> None:
    own, ram = MemoryPool("gpu", 1 << 40), MemoryPool("system", 1 << 40)
    own.take("gpu:0", Owner(Component.WEIGHTS, 1), 20 * MIB)  # one of two buffers
    own.take("gpu:0", Owner(Component.CACHE, 1), 4 * MIB)
    ram.take("intel:0", Owner(Component.WEIGHTS, 0), 30 * MIB)
    failure = NoMem("gpu:0", "graph", 7 * MIB, MIB)
    found = now(planned, (own, ram), failure)
    gpu, intel, _ = found.devices
    mib = {e: e.size // MIB for e in (gpu.weights[1], gpu.cache[1], gpu.graph)}
    assert list(mib.values()) == [30, 4, 7]
    assert [e.status for e in mib] == [Status.UNALLOCATED, Status.ALLOCATED, Status.FAILED]
    assert intel.weights[0].status is Status.ALLOCATED
    assert intel.cache[0].status is Status.UNALLOCATED
    assert found.input_weights.status is Status.MAPPED
    assert found.allocated == 34 * MIB
    own.take("gpu:0", Owner(Component.WEIGHTS, 1), 10 * MIB)
    own.take("gpu:0", Owner(Component.GRAPH, name="a"), 5 * MIB)
    own.take("gpu:0", Owner(Component.GRAPH, name="b"), 4 * MIB)  # it has grown
    gpu = now(planned, (own, ram)).devices[0]
    assert gpu.weights[1].status is Status.ALLOCATED
    assert gpu.graph == MemoryEntry(9 * MIB, Status.ALLOCATED)
