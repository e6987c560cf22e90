"""CUTAWAY_VECTORS: drivers compile for narrower vectors than the processor has, and rightly."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type

from engine.backends.opencl.drivers import vectors
from engine.backends.opencl.drivers.device import describe, list_devices, open_device
from engine.backends.opencl.drivers.find import Driver
from engine.runner import load
from tests.goldens.tiny import tiny_tokens, write_tiny
from tests.kernels.harness import nmse
from tests.program import ROOT

MODULE = "tests.engine.backends.opencl.drivers.limited"
FLAGS = Path("/proc/cpuinfo").read_text().split() if Path("/proc/cpuinfo").exists() else []
DRIVERS = ["intel:0", "pocl:0"]


def run_limited(kind: str, *words: str) -> str:
    """What the script prints in a process with such vectors."""
    if words[1] not in [info.name for info in list_devices()]:
        pytest.skip(f"there is no {words[1]}")
    needed = {"avx2": "avx2", "auto": "avx512bw", "sse": "sse4_2"}[kind]
    if needed not in FLAGS:
        pytest.skip(f"the processor has no {needed}")
    environment = os.environ | {"CUTAWAY_VECTORS": kind}
    return subprocess.run(
        [sys.executable, "-m", MODULE, *words],
        cwd=ROOT,
        env=environment,
        timeout=400,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


@pytest.mark.only_linux("PoCL's wheel, and objdump")
@pytest.mark.sampled(2)
@pytest.mark.full_cases(r"\[(sse|auto)-.-pocl")  # kernels run on each driver by turns
@pytest.mark.device
@pytest.mark.parametrize("device", DRIVERS)
@pytest.mark.parametrize(("kind", "widest"), [("auto", "z"), ("avx2", "y"), ("sse", "x")])
def test_code_has_registers_of_that_width(kind: str, widest: str, device: str) -> None:
    """Of AVX2 sixteen of them, and no masks, which come with AVX-512."""
    used = run_limited(kind, "registers", device).split()
    assert max(re.findall(r"([xyz])mm", " ".join(used))) == widest
    if kind != "auto":
        assert not [name for name in used if name.startswith("k")]
        assert max(int(name[3:]) for name in used) <= 15


def check(device: str, kind: str, path: Path, kv: str, tokens: list[int]) -> None:
    """Its programs build, unless the same sources did before; the logits are the host's."""
    out = path.parent / "logits.npy"
    run_limited(kind, "logits", device, str(path), str(out), kv, *map(str, tokens))
    with load(path, device="host", ctx=64, kv=kv) as model:
        want = np.concatenate([part for _, part in model.logits(tokens)])
    assert nmse(np.load(out), want) < 1e-4


TYPES = {"attn_v": Type.Q8_0, "attn_": Type.Q5_0, "ffn_": Type.Q4_1, "output": Type.Q4_0}


@pytest.mark.full_cases(r"\[pocl")
@pytest.mark.device
@pytest.mark.parametrize(
    ("device", "kind", "architecture", "kv"),
    [
        ("intel:0", "avx2", "gemma3", "q8_0"),
        ("pocl:0", "avx2", "gemma3", "q8_0"),
        pytest.param("intel:0", "avx2", "llama", "f16", marks=pytest.mark.full),
        pytest.param("pocl:0", "avx2", "llama", "f16", marks=pytest.mark.full),
        pytest.param("intel:0", "sse", "gemma3", "q8_0", marks=pytest.mark.full),
        pytest.param("pocl:0", "sse", "gemma3", "q8_0", marks=pytest.mark.full),
    ],
)
def test_every_program_builds(
    device: str, kind: str, architecture: str, kv: str, tmp_path: Path
) -> None:
    path = write_tiny(tmp_path / "tiny.gguf", architecture, TYPES)
    check(device, kind, path, kv, tiny_tokens(architecture).tolist())


@pytest.mark.full
@pytest.mark.device
@pytest.mark.model_file
@pytest.mark.parametrize("device", DRIVERS)
def test_real_models(device: str, smollm2_path: Path, gemma3_path: Path, tmp_path: Path) -> None:
    """K-quants, heads of 64 and of 256."""
    for model in (smollm2_path, gemma3_path):
        path = tmp_path / model.name
        path.symlink_to(model)
        check(device, "avx2", path, "f16", [2, 100, 500, 1000, 1500, 2000, 300, 7])


def test_processors_own_vectors_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CL_CONFIG_CPU_TARGET_ARCH", raising=False)
    for kind in ("", "auto", "avx512"):
        monkeypatch.setenv("CUTAWAY_VECTORS", kind)
        assert vectors.limit() is None
        assert vectors.build_options() == []
        vectors.limit_drivers()
        assert "CL_CONFIG_CPU_TARGET_ARCH" not in os.environ
        assert vectors.library_of(Driver("/x/libpocl.so", vectors.POCL)) == "/x/libpocl.so"


def test_programs_of_other_vectors_differ_in_a_define(monkeypatch: pytest.MonkeyPatch) -> None:
    """By which both pyopencl's and PoCL's caches tell them apart."""
    made = set()
    for kind in ("auto", "avx2", "sse"):
        monkeypatch.setenv("CUTAWAY_VECTORS", kind)
        made.add(tuple(vectors.build_options()))
    assert len(made) == 3


@pytest.mark.device
def test_devices_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their vectors and the file of their numbers; a PoCL that cannot be limited says so."""
    device = open_device()
    platform = device.handle.platform
    monkeypatch.setenv("CUTAWAY_VECTORS", "sse")
    narrow = describe("intel:0", platform, device.handle)
    assert narrow.traits.vector_ints == 4
    assert narrow.tuning.endswith("-128bit")
    if device.info.name.startswith("intel"):
        refused = describe("pocl:0", platform, device.handle).problem
        assert "CUTAWAY_VECTORS: unset it" in refused
        assert not narrow.problem


def test_a_narrow_pocl_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links beside each other as its package has them, wider built-in functions led to narrower."""
    packages, cache = tmp_path / "site", tmp_path / "cache"
    library = packages / "pyopencl" / ".libs" / "libpocl-1.so"
    parts = packages / "pocl_binary_distribution" / ".libs"
    (parts / "share").mkdir(parents=True)
    library.parent.mkdir(parents=True)
    library.write_text("driver")
    for kind in ("avx512", "avx2", "avx", "sse41"):
        (parts / "share" / f"kernel-x86_64-unknown-linux-gnu-{kind}.bc").write_text(kind)
    (parts / "libhwloc.so").write_text("part")
    monkeypatch.setattr(vectors, "kept_folder", lambda name: cache / name)
    (cache / "drivers").mkdir(parents=True)
    made = vectors.narrow_pocl(library, "avx2", vectors.KINDS["avx2"])
    assert made.read_text() == "driver"
    assert made.name == library.name
    beside = made.parents[2] / "pocl_binary_distribution" / ".libs"
    found = {p.name.rpartition("-")[2]: p.read_text() for p in (beside / "share").iterdir()}
    assert found == {"avx512.bc": "avx2", "avx2.bc": "avx2", "avx.bc": "avx", "sse41.bc": "sse41"}
    assert (beside / "libhwloc.so").read_text() == "part"
    monkeypatch.setattr(vectors.tempfile, "mkdtemp", None)  # made again, it would be asked
    assert vectors.narrow_pocl(library, "avx2", vectors.KINDS["avx2"]) == made


def test_a_narrow_pocl_of_another_process_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that start together: the second finds the first one's folder in its way."""
    library = tmp_path / "site" / "pyopencl" / ".libs" / "libpocl-1.so"
    library.parent.mkdir(parents=True)
    library.write_text("driver")
    folder = tmp_path / "drivers"
    folder.mkdir()
    monkeypatch.setattr(vectors, "kept_folder", lambda name: folder)
    link = vectors._link

    def and_the_other(given: Path, to: Path) -> None:
        monkeypatch.setattr(vectors, "_link", link)
        vectors.narrow_pocl(library, "avx2", vectors.KINDS["avx2"])
        link(given, to)

    monkeypatch.setattr(vectors, "_link", and_the_other)
    made = vectors.narrow_pocl(library, "avx2", vectors.KINDS["avx2"])
    assert made.read_text() == "driver"
    assert len(list(folder.iterdir())) == 1
