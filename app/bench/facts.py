"""Facts of a result besides its numbers, under llama-bench's keys if it has one."""

import os
from datetime import UTC, datetime
from statistics import mean, median, stdev
from typing import Any

from app.terminal.engine import CommandEngine
from app.version import commit, version
from engine.gguf.reader import open_gguf
from engine.protocol import BenchTest, ListDevices, Loaded


def facts_of(engine: CommandEngine, loaded: Loaded) -> dict[str, Any]:
    """The same for all tests: the program, the model, the device, the settings."""
    options = engine.options
    devices = [
        device
        for device in engine.worker.get(ListDevices(engine.worker.new_id())).devices
        if device.id == loaded.device
    ]
    units = devices[0].compute_units if devices else os.cpu_count() or 1
    return {
        "version": version(),
        "build_commit": commit(),
        "backends": f"OpenCL {loaded.device}" if devices else loaded.device,
        "device_name": loaded.device_name,
        "driver": devices[0].driver if devices else "",
        **model_facts(loaded),
        "n_threads": options.threads or units,
        "type_k": options.kv,
        "type_v": options.kv,
        "activation_bits": options.activations,
        "flash_attn": options.flash_attention is not False,
        "n_ctx": loaded.n_ctx,
    }


def statistics(test: BenchTest, samples_ns: list[int]) -> dict[str, Any]:
    """Return statistics of a test's repetitions: means, sample deviations, medians, and all
    samples.
    """
    samples_ts = [test.n_timed * 1e9 / ns for ns in samples_ns]
    return {
        "test": test.name,
        "n_prompt": test.n_prompt,
        "n_gen": test.n_gen,
        "n_depth": test.n_depth,
        "n_rows": test.n_rows,
        "test_time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "avg_ns": round(mean(samples_ns)),
        "stddev_ns": round(_deviation(samples_ns)),
        "median_ns": round(median(samples_ns)),
        "avg_ts": mean(samples_ts),
        "stddev_ts": _deviation(samples_ts),
        "median_ts": median(samples_ts),
        "samples_ns": samples_ns,
        "samples_ts": samples_ts,
    }


def _deviation(samples: list[int] | list[float]) -> float:
    return stdev(samples) if len(samples) > 1 else 0.0


def model_facts(loaded: Loaded) -> dict[str, Any]:
    """Name, kind and size of the model."""
    with open_gguf(loaded.path) as file:
        tensors = file.tensors.values()
        size, params = sum(t.nbytes for t in tensors), sum(t.elements for t in tensors)
        file_type = file.metadata.get("general.file_type", int, None)
    label = f"{params / 1e9:.1f}B" if params >= 1e9 else f"{params / 1e6:.0f}M"
    return {
        "model_filename": loaded.path,
        "model_type": " ".join(filter(None, (loaded.architecture, label, _type_name(file_type)))),
        "model_size": size,
        "model_n_params": params,
    }


def _type_name(file_type: int | None) -> str:
    """Q4_K_M for 15; empty where nobody knows."""
    from gguf import LlamaFileType

    names: dict[int | None, str] = {kind.value: kind.name for kind in LlamaFileType}
    return names.get(file_type, "").removeprefix("MOSTLY_")
