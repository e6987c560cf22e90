"""Every kernel passes other vendors' compilers: clang for SPIR-V, AMD and NVIDIA devices.

What passed is kept beside the kernels that were built, under its source, its options and the
compiler's version, and is not compiled again.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import pytest

from engine.backends.opencl.launch import DeviceTraits
from engine.backends.opencl.launches.sizes import BLOCK_WIDTH, ROW_NAMES, vector_width
from engine.backends.opencl.packing import pack
from engine.backends.opencl.program import lanes_of_thread, registers
from engine.backends.opencl.source import OPTIONS, families, source
from engine.backends.opencl.tiles.schemes import SCHEMES, Scheme
from engine.gguf.formats import I8, IQ4_NL, Q4_K, Q6_K, Format
from engine.graph.tensor import Role, leaf
from engine.settings import cache_folder
from tests.kernels.blocks import QUANTIZED

ANY = "spir64"  # whatever the device is; the others are GPUs
TARGETS = {
    ANY: (),
    "nvptx64": (),
    "amdgcn-amd-amdhsa": ("-mcpu=gfx906", "-nogpulib"),
}
# Processors without a driver here, down to their instructions; how wide vectors are passed is no
# matter where all is inlined.
CPU_TARGETS = {
    "aarch64-linux-gnu": ("-Wno-psabi",),
    "x86_64-linux-gnu": ("-march=x86-64-v2", "-Wno-psabi"),
}
# The vectors that items take where a device says that its own hold four numbers.
NARROW = DeviceTraits(True, 2, 4096, 32768, vector_ints=4)
OPERATIONS = {
    "arithmetic": "add sub mul div",
    "unary": "scale_of softcap_of clamp_of sqr_of sqrt_of sin_of cos_of exp_of softplus_of",
    "activation": "silu_of gelu_of gelu_erf_of quick_gelu_of relu_of tanh_of sigmoid_of "
    "swiglu_limit_of xielu_of",
    "norm": "rms_norm layer_norm l2_norm",
}
MOVED = ("u8 u8 uchar", "u64 u64 ulong", "i8 i64 long", "f16 i16 float", "i32 bf16 float")
# Families that are for one kind of device only, by the other one.
OTHER_KIND = {
    "attention_vectors": "gpu",
    "attention_tiles": "gpu",
    "attention_lanes": "cpu",
    "recurrence_vectors": "gpu",
    "recurrence_lanes": "cpu",
    "attention_wide": "cpu",
    "matmul_wide": "cpu",
    "matrix_trial": "cpu",
}
PACKED = {
    "attention_lanes": ("-DSTORES=1", "-DMERGES=32", "-DDIM=64", "-DROWS=4"),
    "attention_merge": (),
    "attention_tiles": (),
    "attention_vectors": (),
    "attention_wide": (),
    "matmul_tiled": (),
    "matmul_wide": ("-DROWS=1", "-DLANES=1", "-DPANEL=4", "-DX_DIGITS=1"),
    "norm_chain": (),
    "rope_store": (),
}
"""Families whose kernels take numbers in one struct, with defines that reach all of it."""

NUMBERS = {"BIAS", "FACTOR", "OFFSET", "TABLE"}
"""Defines that only arithmetic reads, but for whether there are some."""

DEVICES = {"cpu": ("-DW=16", "-DLOCAL=1"), "gpu": ("-DW=4", "-DLOCAL=64")}
Compile = Callable[..., None]  # of a family, a target, and defines


@pytest.fixture(scope="session")
def clang() -> tuple[str, str]:
    """Where it is, and which one."""
    found = shutil.which("clang")
    if found is None:
        assert "CI" not in os.environ, "CI installs it"
        pytest.skip("needs clang: apt-get install clang")
    words = [found, "--version"]
    return found, subprocess.run(words, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def compiled(clang: tuple[str, str]) -> Compile:
    """Compiles a family unless the same source passed before; without an error or a warning."""
    program, version = clang
    passed = cache_folder() / "clang"
    passed.mkdir(parents=True, exist_ok=True)

    def instructions(text: str, target: str) -> None:
        """What is left is made, kernels being functions like others there."""
        words = [program, *("-x", "ir", f"--target={target}", "-O1", "-S", "-o", "-", "-")]
        text = re.sub(r"\bspir_(kernel|func) ", "", text)
        done = subprocess.run(
            words, input=text, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        assert ".globl" in done.stdout

    def compile(family: str, target: str, *defines: str) -> None:
        own = TARGETS[target] if target in TARGETS else CPU_TARGETS[target]
        words = [
            *("-x", "cl", *OPTIONS, f"--target={target}", *own),
            *("-Xclang", "-finclude-default-header", "-Xclang", "-cl-ext=+cl_khr_fp16"),
            *("-Wall", "-Wno-unused-function", *defines),
            *("-O1", "-S", "-emit-llvm", "-o", "-", "-"),
        ]
        text = source(family)
        case = passed / sha256(" ".join([family, *words]).encode()).hexdigest()[:16]
        stamp = sha256(f"{version}\0{text}".encode()).hexdigest()
        if case.exists() and case.read_text() == stamp:
            return
        done = subprocess.run(
            [program, *words], input=text, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        assert not done.stderr
        assert "define" in done.stdout
        if target in CPU_TARGETS:
            instructions(done.stdout, target)
        case.write_text(stamp)

    return compile


@pytest.mark.each_value
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("family", families())
def test_clang_takes_it_without_a_warning(
    compiled: Compile, family: str, target: str, device: str
) -> None:
    if OTHER_KIND.get(family) != device and (device == "gpu" or target == ANY):
        compiled(family, target, *DEVICES[device])


@pytest.mark.full_cases("^(?!.*matmul).*x86")  # of its own code products have some
@pytest.mark.parametrize("target", CPU_TARGETS)
@pytest.mark.parametrize("family", families())
def test_clang_makes_instructions_of_other_processors(
    compiled: Compile, family: str, target: str
) -> None:
    if OTHER_KIND.get(family) != "cpu":
        compiled(family, target, f"-DW={vector_width(NARROW)}", "-DLOCAL=1")


@pytest.mark.each_value
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("family", OPERATIONS)
def test_clang_takes_every_operation(compiled: Compile, family: str, target: str) -> None:
    for op in OPERATIONS[family].split():
        compiled(family, target, *DEVICES["gpu"], f"-DOP={op}")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rule", ["DELTA", "WKV BY_CHANNEL ERASES", "WKV BY_CHANNEL BONUS"])
def test_clang_takes_every_recurrence(compiled: Compile, target: str, rule: str) -> None:
    defines = [f"-D{name}=1" for name in rule.split()]
    compiled("recurrence_lanes", target, *DEVICES["gpu"], *defines)
    if target == ANY:
        compiled("recurrence_vectors", target, *DEVICES["cpu"], *defines)


@pytest.mark.parametrize("family", PACKED)
def test_clang_takes_numbers_in_memory(compiled: Compile, family: str) -> None:
    """The form for drivers that refuse structs by value."""
    for device, defines in DEVICES.items():
        if OTHER_KIND.get(family) != device:
            compiled(family, ANY, *defines, *PACKED[family], "-DNUMBERS_IN_MEMORY")


@pytest.mark.each_value
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("types", MOVED)
def test_clang_takes_moves_between_types(compiled: Compile, types: str, target: str) -> None:
    named = (f"-D{name}={kind}" for name, kind in zip("XYR", types.split(), strict=True))
    compiled("move", target, *DEVICES["gpu"], *named)


@pytest.mark.each_value
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("fmt", QUANTIZED, ids=str)
def test_clang_takes_the_decoder_of_every_format(
    compiled: Compile, fmt: Format, target: str
) -> None:
    defines = (f"-DA={ROW_NAMES[fmt]}", f"-DW={BLOCK_WIDTH}", "-DSTEP=4", "-DLOCAL=32")
    compiled("matmul_plain", target, *defines)


def formats_by_form(found: Mapping[Format, Any]) -> list[Any]:
    """Formats to multiply; `full` is what differs from one before in numbers alone."""
    seen, params = set[frozenset[tuple[str, Any]]](), []
    for fmt, scheme in found.items():
        form = {(n, bool(v) if n in NUMBERS else v) for n, v in scheme.defines.items()}
        marks = [pytest.mark.full] if frozenset(form) in seen else []
        params.append(pytest.param(fmt, id=str(fmt), marks=marks))
        seen.add(frozenset(form))
    return params


@pytest.mark.each_value
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("fmt", formats_by_form(SCHEMES))
def test_clang_takes_the_tiles_of_every_format(compiled: Compile, fmt: Format, target: str) -> None:
    scheme = SCHEMES[fmt]
    defines = [f"-D{name}={value}" for name, value in scheme.defines.items()]
    defines += ["-DX_F32=1"] if scheme.exact else []
    lanes = ["-DROWS=1", "-DLANES=1", "-DTEAM=8"]
    compiled("matmul_tiled", target, *defines, *lanes, "-DPANEL=1", "-DACT=SILU")
    compiled("matmul_experts", target, *defines, *lanes, "-DPANEL=4")
    shared = ["-DROWS=1", "-DLANES=1", "-DTEAM=8", "-DPANEL=4", "-DSHARED=1", "-DPANELS=2"]
    compiled("matmul_tiled", target, *defines, *shared)
    if fmt is Q4_K:
        compiled("matmul_tiled", target, *defines, *shared, "-DACT=SILU")
    if fmt in (IQ4_NL, Q4_K, Q6_K):
        one = ["-DROWS=1", "-DLANES=1", "-DPANEL=4"]
        compiled("matmul_wide", target, *defines, *one, "-DX_DIGITS=1")
        compiled("matmul_wide", target, *defines, *one, "-DX_BITS=16", "-DACT=SILU")
    if target == ANY:
        vectors = ["-DROWS=32", "-DVECTORS=2", "-DPANEL=4", "-DCHUNK=64"]
        staged = ["-DSTAGED=1"] if scheme.stages(rows=8) else []
        compiled("matmul_tiled", target, *defines, *vectors, *staged)
        if isinstance(scheme, Scheme):
            _vectors_of_bytes(compiled, scheme, vectors)


def _vectors_of_bytes(compiled: Compile, scheme: Scheme, vectors: Sequence[str]) -> None:
    """Activations of 8 bits, and digits of one row, with and without VNNI's sums."""

    def with_bytes(*options: str, **given: int | str) -> None:
        defines = [f"-D{name}={value}" for name, value in {**scheme.defines, **given}.items()]
        compiled("matmul_tiled", ANY, *defines, *options)

    if scheme.takes_bytes:
        with_bytes(*vectors, **scheme.byte_defines, X_BITS=8, STAGED=1, VNNI=1)
    for vnni in ({}, {"VNNI": 1}):
        one = {"ROWS": 32, "VECTORS": 2, "PANEL": 1, "X_DIGITS": 1}
        with_bytes(**scheme.digit_defines, **one, **vnni)


@pytest.mark.parametrize("fmt", SCHEMES, ids=str)
def test_clang_takes_the_packer_of_every_format(compiled: Compile, fmt: Format) -> None:
    traits = DeviceTraits(False, 40, 1024, 1 << 16)
    blocks = leaf("blocks", I8, (fmt.row_bytes(256),), Role.INPUT)
    launch = pack(blocks, blocks, fmt, 256, traits)
    compiled("pack", ANY, *(f"-D{name}={value}" for name, value in launch.defines.items()))


def test_a_device_of_many_lanes_takes_the_fewest() -> None:
    """Intel's compiler begins with 32, and registers then hold half as much; elsewhere it is left
    alone.
    """
    assert lanes_of_thread([16, 32]) == ["-DSUB_GROUP=16"]
    assert lanes_of_thread([8, 16, 32]) == lanes_of_thread([]) == lanes_of_thread([32]) == []


def test_only_programs_that_ask_for_it_get_twice_the_registers() -> None:
    assert registers(["-DW=4", "-DLARGE_GRF=1"]) == ["-cl-intel-256-GRF-per-thread"]
    assert registers(["-DW=4"]) == []


@pytest.mark.each_value
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("fmt", formats_by_form({f: s for f, s in SCHEMES.items() if not s.exact}))
def test_clang_takes_the_dots_of_every_format(compiled: Compile, fmt: Format, target: str) -> None:
    given = {**SCHEMES[fmt].defines, "X_DIGITS": 1, "ROWS": 1, "LANES": 1, "TEAM": 8}
    defines = [f"-D{name}={value}" for name, value in given.items()]
    compiled("matmul_tiled", target, *defines, "-DPANEL=1")
    compiled("matmul_tiled", target, *defines, "-DPANEL=4", "-DSHARED=1", "-DPANELS=2")
    compiled("matmul_experts", target, *defines, "-DPANEL=4")
