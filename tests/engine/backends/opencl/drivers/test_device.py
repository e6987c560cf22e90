"""Spelling, defaults and duplicates; and what the errors say."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from engine.backends.opencl.drivers import device as module
from engine.backends.opencl.drivers.device import (
    Device,
    DeviceInfo,
    _with_defaults,
    family_name,
    list_devices,
    open_device,
)
from engine.backends.opencl.launch import DeviceTraits
from engine.errors import DeviceError
from engine.memory.pools import SYSTEM, system_pool

CPU = DeviceInfo(
    name="pocl:0",
    title="Some CPU",
    vendor="",
    platform="",
    driver_version="",
    memory=1 << 30,
    max_allocation=1 << 28,
    alignment=128,
    pool=SYSTEM,
    extensions=(),
    traits=DeviceTraits(True, 4, 4096, 1 << 15),
)
GPU = replace(CPU, title="Some GPU", traits=replace(CPU.traits, is_cpu=False))


def ranked(*infos):
    return [d.info for d in _with_defaults([Device(info, None) for info in infos])]


@pytest.mark.parametrize(
    ("platform", "family"),
    [
        ("Portable Computing Language", "pocl"),
        ("Intel(R) OpenCL", "intel"),
        ("Intel(R) OpenCL Graphics", "intel-gpu"),
        ("NVIDIA CUDA", "nvidia"),
        ("AMD Accelerated Parallel Processing", "amd"),
        ("rusticl", "rusticl"),
        ("Apple", "apple"),
        ("QUALCOMM Snapdragon(TM)", "qualcomm"),
        ("", "opencl"),
    ],
)
def test_family_name(platform, family):
    assert family_name(platform) == family


def test_one_default_a_processor_and_gpus_first():
    rows = ranked(
        replace(CPU, name="pocl:0"),
        replace(CPU, name="intel:0", title="the same, called otherwise"),
        replace(GPU, name="rusticl:0", pool="pci:01:00.0"),
        replace(GPU, name="amd:0", pool="pci:01:00.0"),
        replace(GPU, name="amd:1", pool="pci:02:00.0"),
    )
    assert [(r.name, r.default, r.same_as) for r in rows] == [
        ("amd:0", True, ""),
        ("amd:1", True, ""),
        ("rusticl:0", False, "amd:0"),
        ("intel:0", True, ""),
        ("pocl:0", False, "intel:0"),
    ]


def test_a_device_with_a_problem_is_never_the_default():
    rows = ranked(replace(CPU, name="intel:0", problem="broken"), replace(CPU, name="pocl:0"))
    assert [(r.name, r.default) for r in rows] == [("pocl:0", True), ("intel:0", False)]
    assert not ranked(replace(CPU, problem="broken"))[0].default


def test_pocl_needs_the_linker(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "binutils" in module.problem_of("pocl:0")
    assert module.problem_of("intel:0") == ""


def test_errors_say_what_there_is(monkeypatch):
    found = [Device(CPU, None), Device(replace(CPU, name="pocl:1", problem="no linker"), None)]
    monkeypatch.setattr(module, "find_devices", lambda: found)
    with pytest.raises(DeviceError, match="there are pocl:0, pocl:1 and host"):
        open_device("nvidia:0")
    with pytest.raises(DeviceError, match="no linker"):
        open_device("pocl:1")
    monkeypatch.setattr(module, "find_devices", list)
    for name in (None, "intel:0"):
        with pytest.raises(DeviceError, match=r"pip install 'cutaway\[cpu\]'"):
            open_device(name)
    monkeypatch.setattr(module, "find_devices", lambda: found[1:])
    with pytest.raises(DeviceError, match="no linker"):
        open_device()


@pytest.mark.device
def test_devices_here():
    infos = list_devices()
    if not infos:
        pytest.skip("no OpenCL driver")
    assert infos[0].default
    assert len({info.name for info in infos}) == len(infos)
    for info in infos:
        assert info.alignment % 128 == 0
        assert 0 < info.max_allocation <= info.memory
        opened = open_device(info.name)
        assert opened.info == info
        assert (opened.memory_pool() is system_pool()) == (info.pool == SYSTEM)
    assert open_device().info.default


@pytest.mark.device
def test_two_devices_of_one_platform():
    """Any machine can have several: PoCL makes them on request."""
    if not any(info.name == "pocl:0" for info in list_devices()):
        pytest.skip("no PoCL")
    code = (
        "import json; from engine.backends.opencl.drivers.device import list_devices;"
        "print(json.dumps([[d.name, d.same_as] for d in list_devices()]))"
    )
    env = os.environ | {"POCL_DEVICES": "pthread pthread"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True)
    names = dict(json.loads(done.stdout))
    assert "pocl:1" in names
    assert names["pocl:1"] in ("pocl:0", "intel:0")
