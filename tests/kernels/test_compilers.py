"""Every kernel passes other vendors' compilers: clang for SPIR-V, AMD and NVIDIA devices."""

import os
import shutil
import subprocess
from collections.abc import Sequence

import pytest

from engine.backends.opencl.launches.sizes import BLOCK_WIDTH, ROW_NAMES
from engine.backends.opencl.source import OPTIONS, families, source
from engine.backends.opencl.tiles.schemes import SCHEMES
from engine.gguf.formats import Format
from tests.kernels.blocks import QUANTIZED

TARGETS = {
    "spir64": (),
    "nvptx64": (),
    "amdgcn-amd-amdhsa": ("-mcpu=gfx906", "-nogpulib"),
}
OPERATIONS = {
    "arithmetic": "add sub mul div",
    "unary": "scale_of softcap_of clamp_of sqr_of sqrt_of sin_of cos_of",
    "activation": "silu_of gelu_of quick_gelu_of relu_of tanh_of sigmoid_of swiglu_limit_of",
    "norm": "rms_norm layer_norm l2_norm",
}
MOVED = ("u8 u8 uchar", "u64 u64 ulong", "i8 i64 long", "f16 i16 float", "i32 bf16 float")
DEVICES = {"cpu": ("-DW=16", "-DLOCAL=1"), "gpu": ("-DW=4", "-DLOCAL=64")}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("family", families())
def test_clang_takes_it_without_a_warning(family: str, target: str, device: str) -> None:
    compiled(family, target, DEVICES[device])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("family", OPERATIONS)
def test_clang_takes_every_operation(family: str, target: str) -> None:
    for op in OPERATIONS[family].split():
        compiled(family, target, (*DEVICES["gpu"], f"-DOP={op}"))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("types", MOVED)
def test_clang_takes_moves_between_types(types: str, target: str) -> None:
    named = (f"-D{name}={kind}" for name, kind in zip("XYR", types.split(), strict=True))
    compiled("move", target, (*DEVICES["gpu"], *named))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("fmt", QUANTIZED, ids=str)
def test_clang_takes_the_decoder_of_every_format(fmt: Format, target: str) -> None:
    defines = (f"-DA={ROW_NAMES[fmt]}", f"-DW={BLOCK_WIDTH}", "-DSTEP=4", "-DLOCAL=32")
    compiled("matmul_plain", target, defines)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("fmt", SCHEMES, ids=str)
def test_clang_takes_the_tiles_of_every_format(fmt: Format, target: str) -> None:
    scheme = SCHEMES[fmt]
    defines = [f"-D{name}={value}" for name, value in scheme.defines.items()]
    defines += ["-DX_F32=1"] if scheme.exact else []
    defines += ["-DROWS=1", "-DTEAM=8"]
    compiled("matmul_tiled", target, (*defines, "-DPANEL=1", "-DACT=SILU"))
    compiled("matmul_experts", target, (*defines, "-DPANEL=4"))


def compiled(family: str, target: str, defines: Sequence[str]) -> None:
    clang = shutil.which("clang")
    if clang is None:
        assert "CI" not in os.environ, "CI installs it"
        pytest.skip("needs clang: apt-get install clang")
    done = subprocess.run(
        [
            *(clang, "-x", "cl", *OPTIONS, f"--target={target}", *TARGETS[target]),
            *("-Xclang", "-finclude-default-header", "-Xclang", "-cl-ext=+cl_khr_fp16"),
            *("-Wall", "-Wno-unused-function", *defines),
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
