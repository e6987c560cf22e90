"""A vendor's instruction is used where it compiles, runs and is right, and nowhere else."""

import subprocess
import sys

import pytest

from engine.backends.opencl import program
from engine.backends.opencl.attempt import attempt
from engine.backends.opencl.drivers import device as devices
from engine.backends.opencl.drivers import trials
from engine.backends.opencl.drivers.device import open_device
from engine.backends.opencl.drivers.loader import cl
from engine.backends.opencl.drivers.trials import (
    Trial,
    dot4_trials,
    halves_trials,
    matrix_trials,
    summary,
)
from engine.settings import TRIALS

LIE = """
__kernel void dot4_trial(__global int *y, const __global uint *a, const __global uint *b,
                         const __global int *c) {
  int i = get_global_id(0);
  char4 p = as_char4(a[i]), q = as_char4(b[i]);
  y[i] = c[i] + p.x * q.x + p.y * q.y + p.z * q.z + p.w * (i == 7 ? 1 : q.w);
}
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(trials, "kept_folder", lambda name: tmp_path)
    return tmp_path


def saying(text: str) -> tuple[str, ...]:
    """A process in place of the real one."""
    return (sys.executable, "-c", text)


def test_the_plain_body_is_right_on_every_driver(backend):
    assert attempt(open_device(backend.name), "PLAIN") == ""


@pytest.mark.parametrize("way", ["BYTES", "HALVES"])
def test_fragments_without_units_are_right_on_every_driver(backend, way):
    assert attempt(open_device(backend.name), way) == ""


def test_one_wrong_fragment_is_seen(backend, monkeypatch, tmp_path):
    text = program.source("matrix_trial")
    wrong = text.replace("y[COLUMN_AT(across, i) * SIDE", "y[(COLUMN_AT(across, i) ^ 1) * SIDE")
    assert wrong != text
    monkeypatch.setattr(program, "source", lambda family: wrong)
    monkeypatch.setattr(program, "kept_folder", lambda name: tmp_path)
    assert attempt(open_device(backend.name), "BYTES").startswith("gives wrong sums (4")


def test_matrix_units_that_lie_hang_or_do_not_compile_are_off(monkeypatch):
    """Each leaves a line; products of a device that has none are by dot4."""
    act = (
        "import sys, time\n"
        "way = sys.argv[2]\n"
        "if way == 'IMMA': time.sleep(60)\n"
        "said = {'HMMA': 'gives wrong sums (4 of 4096)', 'DPAS8': ''}\n"
        "print(said.get(way, 'does not compile'))\n"
    )
    monkeypatch.setattr(trials, "ATTEMPT", saying(act))
    monkeypatch.setattr(trials, "TIMEOUT", 2.0)
    found = matrix_trials("gpu:0", ("a", "1"))
    assert summary((Trial("AMD"), *found)) == (
        "dot4 by AMD; matrix by DPAS8 (IMMA: no answer within 2 s; "
        "HMMA: gives wrong sums (4 of 4096); WMMA: does not compile; MFMA: does not compile; "
        "DPAS16: does not compile)"
    )


def test_halves_are_tried_where_units_of_bytes_are_found(monkeypatch):
    monkeypatch.setattr(trials, "ATTEMPT", saying("print('gives wrong sums (4 of 4096)')"))
    found = halves_trials("gpu:0", ("a", "1"))
    assert summary((Trial("IMMA", purpose="matrix"), *found)) == (
        "matrix by IMMA; no halves (HMMA: gives wrong sums (4 of 4096))"
    )


def test_what_a_driver_has_no_word_for_does_not_compile(backend):
    assert attempt(open_device(backend.name), "RDNA3") == "does not compile"


def test_one_wrong_sum_is_seen(backend, monkeypatch, tmp_path):
    monkeypatch.setattr(program, "source", lambda family: LIE)
    monkeypatch.setattr(program, "kept_folder", lambda name: tmp_path)
    assert attempt(open_device(backend.name), "PLAIN") == "gives wrong sums (1 of 1024)"


def test_what_hangs_crashes_or_fails_is_off(monkeypatch):
    """The next way is tried, and the first that works is used."""
    act = (
        "import os, sys, time\n"
        "way = sys.argv[2]\n"
        "if way == 'NVIDIA': time.sleep(60)\n"
        "if way == 'AMD': os.abort()\n"
        "if way == 'RDNA3': sys.exit(3)\n"
        "print('')\n"
    )
    monkeypatch.setattr(trials, "ATTEMPT", saying(act))
    monkeypatch.setattr(trials, "TIMEOUT", 2.0)
    run = subprocess.run

    def patient(words, **how):
        """Two seconds for what hangs; a machine may be too busy to end the others in them."""
        return run(words, **how | {"timeout": how["timeout"] if "NVIDIA" in words else 60})

    monkeypatch.setattr(trials.subprocess, "run", patient)
    found = dot4_trials("gpu:0", ("a", "1"))
    assert found == (
        Trial("NVIDIA", "no answer within 2 s"),
        Trial("AMD", "its process ended by SIGABRT"),
        Trial("RDNA3", "its process ended with 3"),
        Trial("INTEL"),
    )
    assert summary(found).startswith("dot4 by INTEL (NVIDIA: no answer within 2 s; AMD: ")


def test_what_was_found_is_kept_under_the_driver(monkeypatch, own_folder):
    monkeypatch.setattr(trials, "ATTEMPT", saying("print('gives wrong sums (9 of 1024)')"))
    found = dot4_trials("gpu:0", ("a", "1"))
    assert [one.refused for one in found] == ["gives wrong sums (9 of 1024)"] * 4
    assert summary(found).startswith("no dot4 (NVIDIA: gives wrong sums")
    monkeypatch.setattr(trials, "ATTEMPT", saying("print('')"))
    assert dot4_trials("gpu:0", ("a", "1")) == found
    assert dot4_trials("gpu:0", ("a", "2")) == (Trial("NVIDIA"),)
    kept = list(own_folder.glob("*.sealed"))
    assert len(kept) == 2
    for path in kept:
        path.write_bytes(path.read_bytes()[:-1])  # damaged: made again
    assert dot4_trials("gpu:0", ("a", "1")) == (Trial("NVIDIA"),)


def test_one_setting_turns_them_off(monkeypatch):
    monkeypatch.setattr(trials, "ATTEMPT", saying("print('')"))
    monkeypatch.setenv(TRIALS.name, "0")
    assert dot4_trials("gpu:0", ("a", "1")) == ()
    assert summary(()) == ""


def test_a_gpu_gets_what_was_found(backend, monkeypatch):
    """A CPU is tried for nothing."""
    asked = []

    def found(name, facts):
        asked.append(name)
        return (Trial("NVIDIA", "does not compile"), Trial("AMD"))

    monkeypatch.setattr(devices, "dot4_trials", found)
    matrix = (Trial("IMMA", "does not compile", "matrix"), Trial("WMMA", "", "matrix"))
    monkeypatch.setattr(devices, "matrix_trials", lambda name, facts: matrix)
    handle = open_device(backend.name).handle
    info = devices.describe(backend.name, handle.platform, handle)
    assert (info.tried, info.traits.dot4, asked) == ((), "", [])

    class AsGpu:
        type = cl.device_type.GPU

        def __getattr__(self, name):
            return getattr(handle, name)

    info = devices.describe("gpu:0", handle.platform, AsGpu())
    assert (info.traits.dot4, info.traits.matrix, asked) == ("AMD", "WMMA", ["gpu:0"])
    assert info.row().note == (
        "dot4 by AMD (NVIDIA: does not compile); matrix by WMMA (IMMA: does not compile)"
    )


def test_a_trial_runs_in_a_process_of_its_own(backend, monkeypatch):
    monkeypatch.setattr(trials, "TIMEOUT", 60.0)
    monkeypatch.setattr(trials, "DOT4", ("RDNA3", "PLAIN"))
    found = dot4_trials(backend.name, ("a", "1"))
    assert found == (Trial("RDNA3", "does not compile"), Trial("PLAIN"))
