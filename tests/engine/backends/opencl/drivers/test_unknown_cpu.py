"""The CPU's name is replaced only by one whose instructions are all there; kernels build for it."""

import ctypes
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type

from engine.backends.opencl.drivers.find import ONLY, find_drivers
from engine.backends.opencl.drivers.unknown_cpu import KNOWN, known_cpu, pointers_to
from engine.runner import load
from engine.settings import cache_folder
from tests.goldens.tiny import tiny_tokens, write_tiny
from tests.kernels.harness import nmse
from tests.program import ROOT


@pytest.mark.parametrize(("name", "needed"), KNOWN, ids=[name.decode() for name, _ in KNOWN])
def test_known_cpu(name, needed):
    flags = " ".join(sorted({"sse2", *needed}))
    assert known_cpu(f"processor\t: 0\nflags\t\t: {flags}\nbugs\t: x\n") == name
    for flag in needed:
        rest = " ".join(sorted(needed - {flag}))
        assert known_cpu(f"flags\t\t: {rest}\n") != name


def test_pointers_are_found_and_wild_ones_survived():
    text = ctypes.create_string_buffer(b"generic")
    other = ctypes.create_string_buffer(b"another")
    record = (ctypes.c_uint64 * 5)(
        0xFFFF_FFFF_FFFF_FFFF, ctypes.addressof(other), 8, ctypes.addressof(text), 1 << 46
    )
    start = ctypes.addressof(record)
    assert pointers_to(b"generic\0", start, ctypes.sizeof(record)) == [start + 24]


@pytest.fixture(scope="module")
def avx2_pocl(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process whose only driver is a PoCL as on a CPU with AVX2.

    PoCL takes its built-in functions from the library for the best instructions there are, so a
    copy of it gets that for AVX2 in place of all better ones.
    """
    ours = [d for d in find_drivers({}) if d.origin == "pocl-binary-distribution"]
    spec = find_spec("pocl_binary_distribution")
    if not ours or spec is None or spec.origin is None:
        pytest.skip("no PoCL of the package index; pip install 'cutaway[pocl]'")
    if "avx2" not in Path("/proc/cpuinfo").read_text().split():
        pytest.skip("the processor has no AVX2")
    root, given = tmp_path_factory.mktemp("avx2"), Path(ours[0].library)
    parts = Path(spec.origin).parent / ".libs"
    library = root / given.parent.parent.name / ".libs" / given.name
    library.parent.mkdir(parents=True)
    try:
        os.link(given, library)
    except OSError:  # another file system
        shutil.copy(given, library)
    for part in parts.rglob("*"):
        place = root / "pocl_binary_distribution" / ".libs" / part.relative_to(parts)
        place.parent.mkdir(parents=True, exist_ok=True)
        if part.is_file():
            place.symlink_to(str(part).replace("-avx512.bc", "-avx2.bc"))
    (root / "icd").mkdir()
    (root / "icd" / "pocl.icd").write_text(str(library))
    kept = cache_folder() / "avx2"  # kernels, beside those that were built for this CPU
    caches = {"POCL_CACHE_DIR": str(kept / "pocl"), "CUTAWAY_CACHE": str(kept)}
    (kept / "pocl").mkdir(parents=True, exist_ok=True)
    return os.environ | caches | {"OCL_ICD_VENDORS": str(root / "icd"), ONLY: str(library)}


def check(path: Path, environment: dict[str, str], kv: str, tokens: list[int]) -> None:
    """Its programs build, unless the same sources did before; the logits are the host's."""
    out = path.parent / "logits.npy"
    words = [str(path), str(out), kv, *map(str, tokens)]
    command = [sys.executable, "-m", "tests.engine.backends.opencl.drivers.as_haswell", *words]
    subprocess.run(command, check=True, cwd=ROOT, env=environment, timeout=400)
    with load(path, device="host", ctx=64, kv=kv) as model:
        want = np.concatenate([part for _, part in model.logits(tokens)])
    assert nmse(np.load(out), want) < 1e-4


TYPES = {"attn_v": Type.Q8_0, "attn_": Type.Q5_0, "ffn_": Type.Q4_1, "output": Type.Q4_0}


@pytest.mark.device
@pytest.mark.parametrize(
    ("architecture", "kv"),
    [("gemma3", "q8_0"), pytest.param("llama", "f16", marks=pytest.mark.full)],
)
def test_every_program_builds_for_avx2(
    avx2_pocl: dict[str, str], architecture: str, kv: str, tmp_path: Path
) -> None:
    path = write_tiny(tmp_path / "tiny.gguf", architecture, TYPES)
    check(path, avx2_pocl, kv, tiny_tokens(architecture).tolist())


@pytest.mark.full
@pytest.mark.device
@pytest.mark.model_file
def test_real_models_on_avx2(
    avx2_pocl: dict[str, str], smollm2_path: Path, gemma3_path: Path, tmp_path: Path
) -> None:
    """K-quants, heads of 64 and of 256."""
    for model in (smollm2_path, gemma3_path):
        path = tmp_path / model.name
        path.symlink_to(model)
        check(path, avx2_pocl, "f16", [2, 100, 500, 1000, 1500, 2000, 300, 7])
