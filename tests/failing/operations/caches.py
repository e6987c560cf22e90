"""Caches: prepared weights, built kernels, what was tuned. What is not kept costs time."""

from pathlib import Path
from typing import Any

import numpy as np

from engine.backends.host.backend import MappedBuffer
from engine.backends.opencl import program
from engine.backends.opencl.tuned import TuningFile, read
from engine.device.backend import BufferType
from engine.errors import BadFile, CutawayError
from engine.tuner.__main__ import keep
from engine.units import GB
from engine.weights.prepared import writing
from engine.weights.prepared.file import PreparedFile
from tests.failing.sweep import Operation, refused

SIZES = {"a": 5 << 20, "b": 3 << 20}
BINARY = bytes(range(256)) * 200
OLD = TuningFile({"panel": 4}, "old")
NEW = TuningFile({"panel": 8}, "new")


def _data(key: str) -> Any:
    return np.random.default_rng(ord(key)).integers(0, 256, SIZES[key], np.uint8)


def _prepared(root: Path) -> Path:
    return root / "prepared" / f"{'0' * 32}-rows.weights"


def _empty(root: Path) -> None:
    root.mkdir()


def _prepare(root: Path) -> None:
    """As a worker does that has nothing to do: a problem is told, and nothing else."""
    writing.SYNC = 4 << 20
    kind = BufferType("host", "rows", 64, 1 << 40, True)
    buffers = {key: MappedBuffer(kind, _data(key)) for key in SIZES}
    try:
        for _ in writing.write(_prepared(root), buffers, GB, lambda: True):
            pass
    except OSError as error:
        raise CutawayError(str(error)) from None


def _weights(root: Path) -> str:
    """Whether the file is believed: then its bytes are those that were written."""
    try:
        file = PreparedFile(_prepared(root))
        for entry in file.entries.values():
            for _ in file.check(entry):
                pass
    except (FileNotFoundError, BadFile):
        return "none"
    for key in SIZES:
        assert np.array_equal(file.data(file.entries[key]), _data(key)), f"{key} has other bytes"
    return "whole"


def _build(root: Path) -> None:
    program.keep_binary(root / "programs" / f"{'0' * 64}.bin", BINARY)


def _kernel(root: Path) -> bool:
    """Whether the binary is believed: then it is the one that was built."""
    binary = program.kept_binary(root / "programs" / f"{'0' * 64}.bin")
    assert binary in (None, BINARY), "a driver is given noise"
    return binary is not None


def _setup_tuned(root: Path) -> None:
    keep(root / "tuning" / "cpu.json", OLD)


def _tune(root: Path) -> None:
    path = root / "tuning" / "cpu.json"
    try:
        keep(path, NEW)
    except OSError as error:
        refused(error.strerror)
        try:
            keep(path, NEW)
        except OSError as again:
            raise CutawayError(str(again)) from None


def _tuned(root: Path) -> str:
    stored = read(root / "tuning" / "cpu.json")
    assert stored is not None, "what was tuned is lost"
    return stored.device


OPERATIONS = (
    Operation("prepare", _empty, _prepare, _weights, optional=True),
    Operation("kernel", _empty, _build, _kernel, optional=True),
    Operation("tune", _setup_tuned, _tune, _tuned),
)
