"""Every kernel passes other vendors' compilers: clang for SPIR-V, AMD and NVIDIA devices."""

import shutil
import subprocess
from importlib import resources

import pytest

from engine.backends.opencl.program import BEFORE, OPTIONS, source

PARTS = {"common", *(part for parts in BEFORE.values() for part in parts)}
FAMILIES = sorted(
    {
        path.name.removesuffix(".cl")
        for path in resources.files("kernels_cl").iterdir()
        if path.name.endswith(".cl")
    }
    - PARTS
)
TARGETS = {
    "spir64": (),
    "nvptx64": (),
    "amdgcn-amd-amdhsa": ("-mcpu=gfx906", "-nogpulib"),
}
DEVICES = {"cpu": ("-DW=16", "-DLOCAL=1"), "gpu": ("-DW=4", "-DLOCAL=64")}


@pytest.mark.full
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("family", FAMILIES)
def test_clang_takes_it_without_a_warning(family: str, target: str, device: str) -> None:
    clang = shutil.which("clang")
    assert clang, "this test needs clang: apt-get install clang"
    done = subprocess.run(
        [
            *(clang, "-x", "cl", *OPTIONS, f"--target={target}", *TARGETS[target]),
            *("-Xclang", "-finclude-default-header", "-Xclang", "-cl-ext=+cl_khr_fp16"),
            *("-Wall", "-Wno-unused-function", *DEVICES[device]),
            *("-O1", "-S", "-emit-llvm", "-o", "-", "-"),
        ],
        input=source(family),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert "define" in done.stdout
