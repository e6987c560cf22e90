"""A driver that is broken, dies or hangs becomes a result, and says what to do."""

import os
import subprocess
import sys

import pytest

from engine.backends.opencl import diagnose
from engine.backends.opencl.drivers.find import Driver, find_drivers

STRANGER = Driver("/nowhere/libgpu.so", "/etc/OpenCL/vendors")


@pytest.mark.device
@pytest.mark.parametrize("driver", find_drivers(), ids=lambda driver: driver.name)
def test_every_driver_here_runs_a_kernel(driver):
    result = diagnose.check_apart(driver)
    assert result.works, result
    assert (result.library, result.origin) == (driver.library, driver.origin)


def as_child(monkeypatch, code):
    """Let every driver's process run `code` instead."""
    real = diagnose.subprocess.run

    def run(command, **options):
        return real([sys.executable, "-c", code], **options)

    monkeypatch.setattr(diagnose.subprocess, "run", run)


def test_a_crash_is_named(monkeypatch):
    as_child(monkeypatch, "import os, sys; print('LLVM ERROR', file=sys.stderr); os.abort()")
    result = diagnose.check_apart(STRANGER)
    assert not result.works
    assert "SIGABRT" in result.problem
    assert "LLVM ERROR" in result.problem
    assert "/etc/OpenCL/vendors" in result.advice


def test_a_hang_ends(monkeypatch):
    as_child(monkeypatch, "import time; time.sleep(60)")
    assert "no answer within 0.3 s" in diagnose.check_apart(STRANGER, timeout=0.3).problem


def test_no_library(monkeypatch):
    assert "cannot open shared object file" in diagnose.why_not_loaded(STRANGER.library)
    assert "no platform" in diagnose.why_not_loaded("libm.so.6")


def test_advice_names_the_package():
    assert diagnose.advice_for(Driver("x", "intel-opencl-rt")).endswith(" intel-opencl-rt")


@pytest.mark.device
def test_a_broken_driver_hurts_no_other(tmp_path):
    """Beside a library that is none, the others still show their platforms."""
    garbage = tmp_path / "libbroken.so"
    garbage.write_bytes(b"\x7fELF not really")
    code = "from engine.backends.opencl.drivers.loader import platforms; print(len(platforms()))"
    counts = []
    for extra in ("", str(garbage)):
        env = os.environ | {"OCL_ICD_FILENAMES": extra}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True)
        counts.append(int(done.stdout))
    assert counts[0] == counts[1]
    assert str(garbage) in [d.library for d in find_drivers({"OCL_ICD_FILENAMES": str(garbage)})]
