"""A cache that cannot be written costs time, never a device."""

import os
import subprocess
import sys

import pytest

from engine.backends.opencl.drivers.device import list_devices
from engine.backends.opencl.source import kept_folder


def test_folder_is_made(tmp_path):
    assert kept_folder("programs", tmp_path / "new") == tmp_path / "new" / "programs"
    assert (tmp_path / "new" / "programs").is_dir()


def test_where_nothing_can_be_made(tmp_path):
    (tmp_path / "file").touch()
    folder = kept_folder("programs", tmp_path / "file")
    assert folder.is_dir()
    assert tmp_path not in folder.parents


@pytest.mark.device
def test_every_device_is_still_there():
    code = (
        "from engine.backends.opencl.drivers.device import list_devices; print(len(list_devices()))"
    )
    env = os.environ | {"CUTAWAY_CACHE": "/proc/nowhere"}
    env.pop("POCL_CACHE_DIR", None)  # set by this process
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True)
    assert int(done.stdout) == len(list_devices())
