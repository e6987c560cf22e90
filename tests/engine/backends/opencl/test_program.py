"""Built kernels on disk: taken as they were built, and built again where a file is damaged."""

import logging
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pyopencl.characterize import has_src_build_cache

from engine.backends.opencl import program
from engine.backends.opencl.drivers.loader import cl
from engine.backends.opencl.program import ProgramKey, Programs

SOURCE = """
__kernel void add(__global float *y) { y[get_global_id(0)] += BIAS; }
"""
KEY = ProgramKey.of("tiny", {"BIAS": 3})


@pytest.fixture(autouse=True)
def tiny(backend, monkeypatch):
    """A family with one kernel: y += BIAS. Drivers with a cache of their own take no part."""
    if has_src_build_cache(backend.context.devices[0]):
        pytest.skip("the driver keeps its built kernels itself")
    monkeypatch.setattr(program, "source", lambda family: SOURCE)


def result_of(backend, folder: Path) -> list[float]:
    """What the kernel computes from zeros."""
    made = Programs(backend.context, "t", cache=folder).get(KEY)
    y = np.zeros(4, np.float32)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    memory = cl.Buffer(backend.context, flags, hostbuf=y)
    kernel = cl.Kernel(made, "add")
    kernel.set_args(memory)
    cl.enqueue_nd_range_kernel(backend.queue.now, kernel, (4,), None)
    cl.enqueue_copy(backend.queue.now, y, memory).wait()
    return y.tolist()


def test_a_kernel_is_built_once(backend, tmp_path, monkeypatch):
    assert result_of(backend, tmp_path) == [3] * 4
    (file,) = tmp_path.iterdir()
    before = file.read_bytes()

    def build(*_):
        raise AssertionError("it is built again")

    monkeypatch.setattr(Programs, "_from_source", build)
    assert result_of(backend, tmp_path) == [3] * 4
    assert file.read_bytes() == before


def _bit(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 16]) + data[middle + 1 :]


CONTENTS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut at its start": lambda data: data[100:],
    "cut in its head": lambda data: data[:20],
    "cut in the middle": lambda data: data[: len(data) // 2],
    "cut at its end": lambda data: data[:-1],
    "one bit": _bit,
    "noise": lambda data: data[:64] + os.urandom(len(data) - 64),
    "zeros": lambda data: data[:64] + bytes(len(data) - 64),
    "of another version": lambda data: b"CutawayKernel0\n" + data[15:],
    "another file": lambda data: b"GGUF" + bytes(1000),
}


@pytest.mark.each_value
@pytest.mark.parametrize("damage", CONTENTS.values(), ids=CONTENTS)
def test_a_damaged_one_is_built_again(backend, tmp_path, caplog, damage):
    result_of(backend, tmp_path)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    with caplog.at_level(logging.WARNING):
        assert result_of(backend, tmp_path) == [3] * 4
    assert f"{file}: it is damaged; the kernel is built again" in caplog.text
    caplog.clear()
    assert result_of(backend, tmp_path) == [3] * 4  # it was mended
    assert caplog.text == ""


def test_what_the_driver_refuses_is_built_again(backend, tmp_path, caplog):
    """Its checksum holds, but it is of another driver's making."""
    result_of(backend, tmp_path)
    (file,) = tmp_path.iterdir()
    program.keep_binary(file, b"")
    with caplog.at_level(logging.WARNING):
        assert result_of(backend, tmp_path) == [3] * 4
    assert "the kernel is built again" in caplog.text


@pytest.mark.parametrize("kind", ["folder", "pipe", "link to nothing", "loop"])
def test_what_is_not_a_file_is_passed_over(backend, tmp_path, kind):
    result_of(backend, tmp_path)
    (file,) = tmp_path.iterdir()
    file.unlink()
    match kind:
        case "folder":
            file.mkdir()
        case "pipe":
            os.mkfifo(file)
        case "link to nothing":
            file.symlink_to(tmp_path / "nothing")
        case "loop":
            file.symlink_to(file)
    assert result_of(backend, tmp_path) == [3] * 4


def test_a_folder_that_cannot_be_written_costs_time_alone(backend, tmp_path):
    (tmp_path / "programs").write_bytes(b"a file, not a folder")
    assert result_of(backend, tmp_path / "programs") == [3] * 4


def test_a_full_disk_leaves_nothing_behind(backend, tmp_path, monkeypatch):
    def full(name: str, target: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        assert result_of(backend, tmp_path) == [3] * 4
    assert list(tmp_path.iterdir()) == []
