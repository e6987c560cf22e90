"""Memory records as an engine sends them."""

from engine.protocol import (
    HeldMemory,
    Memory,
    MemoryEvent,
    MemoryRow,
    PlannedMemory,
    PoolRow,
    SplitRecord,
    StepTimes,
)

MIB = 1 << 20


def memory(status: str, *, layers: int = 12, fits: bool = True) -> Memory:
    """Two devices of one pool and a GPU; `status` planned or allocated."""
    rows = [
        MemoryRow(device, component, layer, size, status)
        for layer in range(layers)
        for device in ("intel:0" if layer < 8 else "nvidia:0",)
        for component, size in (("weights", 2 * MIB), ("cache", MIB + layer * 65536))
    ]
    rows += [
        MemoryRow("nvidia:0", "weights", layers, 28 * MIB, status),
        MemoryRow("intel:0", "graph", None, 11 * MIB, status),
        MemoryRow("nvidia:0", "graph", None, 9 * MIB, status),
        MemoryRow("host", "graph", None, MIB, status),
        MemoryRow("host", "input", None, 29 * MIB, "mapped"),
    ]
    pools = [
        PoolRow("system", ["intel:0", "host"], 24105 * MIB, 16000 * MIB, 15000 * MIB, 0, "system"),
        PoolRow("NVIDIA RTX", ["nvidia:0"], 8192 * MIB, None, 7600 * MIB, 0, "engine"),
    ]
    if status == "planned":
        return PlannedMemory(0, rows, pools, layers, fits, 0 if fits else 312 * MIB)
    return HeldMemory(0, rows, pools, layers)


def events(layers: int = 12) -> list[MemoryEvent]:
    """What leads to `memory("allocated")`, a millisecond each."""
    told, used = memory("allocated", layers=layers), dict.fromkeys(("system", "NVIDIA RTX"), 0)
    made = []
    for row in told.rows:
        if row.status == "allocated":
            pool = next(pool.name for pool in told.pools if row.device in pool.devices)
            used[pool] += row.size
            made.append(
                MemoryEvent(
                    1_800_000_000_000_000_000 + len(made) * 1_000_000,
                    *("allocate", pool, row.device, row.component, row.layer, "", row.size),
                    used[pool],
                )
            )
    return made


def refused() -> Memory:
    """What a load tells that finds no room for the cache of layer 9."""
    told = memory("allocated")
    rows = [r for r in told.rows if r.component == "weights" or r.status == "mapped"]
    rows += [MemoryRow("nvidia:0", "cache", 9, MIB + 9 * 65536, "failed")]
    return HeldMemory(0, rows, told.pools, told.n_layer)


def step_times(token: int = 1) -> StepTimes:
    """A token over three splits: there, to the GPU, and back for what the host alone can do."""
    splits = [
        SplitRecord("intel:0", 121, "inp_embd", "l_out-7", 1, 4608, 31_000, 3_800_000 + token),
        SplitRecord("nvidia:0", 66, "attn_norm-8", "result_output", 2, 6912, 74_000, 1_120_000),
        SplitRecord("host", 1, "top", "top", 1, 196_608, 41_000, 260_000),
    ]
    return StepTimes(0, 120 + token, 5_900_000, splits)
