"""The vendors' own compilers, and the machine code that they make of a program.

    NVIDIA  clang-19 to PTX, ptxas to machine code, nvdisasm to text
    AMD     clang-19 with ROCm's device library
    Intel   ocloc, which leaves its listing among its dumps

They are asked for nothing but text: no driver, no device.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.backends.opencl.program import lanes_of_thread, registers
from engine.backends.opencl.source import OPTIONS

NVIDIA, AMD, INTEL = "nvidia", "amd", "intel"
TARGETS = {
    "sm_80": NVIDIA,
    "sm_90": NVIDIA,
    "gfx906": AMD,
    "gfx90a": AMD,
    "gfx1100": AMD,
    "dg2": INTEL,
    "pvc": INTEL,
}
SUB_GROUPS = {"dg2": (8, 16, 32), "pvc": (16, 32)}
"""What Intel's driver says of these devices."""

DOTS = {
    "sm_80": "NVIDIA",
    "sm_90": "NVIDIA",
    "gfx906": "AMD",
    "gfx90a": "AMD",
    "gfx1100": "RDNA3",
    "dg2": "INTEL",
    "pvc": "INTEL",
}
"""The way to add four products of bytes that a trial finds on each."""

MATRIX = {
    "sm_80": "IMMA",
    "sm_90": "IMMA",
    "gfx906": "",
    "gfx90a": "MFMA",
    "gfx1100": "WMMA",
    "dg2": "DPAS8",
    "pvc": "DPAS16",
}
"""The way to multiply fragments of matrices, likewise; gfx906 has none."""

HALVES = {target: way.replace("IMMA", "HMMA") for target, way in MATRIX.items()}
"""The way to multiply fragments of halves."""

OCLOC = Path("/opt/ocloc")
"""Where .ci/run unpacks Intel's compiler: as an installed driver it would show a device."""

HALF = """#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define AT(p, i) ((float)(p)[i])
#define AT2(p, i) AT(p, i), AT(p, (i) + 1)
#define AT4(p, i) AT2(p, i), AT2(p, (i) + 2)
#define AT8(p, i) AT4(p, i), AT4(p, (i) + 4)
#define vload_half(i, p) AT(p, i)
#define vload_half2(i, p) ((float2)(AT2(p, 2 * (i))))
#define vload_half4(i, p) ((float4)(AT4(p, 4 * (i))))
#define vload_half8(i, p) ((float8)(AT8(p, 8 * (i))))
#define vload_half16(i, p) ((float16)(AT8(p, 16 * (i)), AT8(p, 16 * (i) + 8)))
#define HALVES_TO(n, v, i, p) for (int h = 0; h < n; h++) (p)[n * (i) + h] = (half)(v)[h]
#define vstore_half_rte(v, i, p) ((p)[i] = (half)(v))
#define vstore_half4_rte(v, i, p) HALVES_TO(4, v, i, p)
#define vstore_half8_rte(v, i, p) HALVES_TO(8, v, i, p)
#define vstore_half16_rte(v, i, p) HALVES_TO(16, v, i, p)
"""
"""libclc converts halves in software; NVIDIA's own compiler has an instruction for it."""

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
CLANG = "clang-19"
AS_CL = (
    "-x",
    "cl",
    *OPTIONS,
    "-O3",
    "-S",
    "-Xclang",
    "-finclude-default-header",
    "-Wno-everything",
)
LIBCLC = Path("/usr/lib/clc/nvptx64--nvidiacl.bc")
ROCM = Path("/usr/lib/x86_64-linux-gnu/amdgcn/bitcode")
WAVES_OF_32 = ("gfx10", "gfx11", "gfx12")
NEWEST_ISA = "1036"  # the last that this device library has a file for


class Missing(Exception):
    """A compiler is not installed; says how to get it."""


@dataclass(frozen=True)
class Code:
    """What a compiler made of one program: its listing and what it says of it, as text."""

    target: str
    listing: str
    notes: str = ""


def compiled(target: str, asked: Mapping[str, tuple[str, Sequence[str]]]) -> dict[str, Code]:
    """The machine code of programs, by their names: each is a source with its defines.

    Raises `Missing`; `AssertionError` with what it refuses.
    """
    vendor = TARGETS[target]

    def one(name: str) -> Code | str:
        source, defines = asked[name]
        words = [f"-D{define}" for define in defines]
        with TemporaryDirectory() as folder:
            path = Path(folder)
            (path / "k.cl").write_text((HALF if vendor == NVIDIA else "") + source)
            try:
                if vendor == NVIDIA:
                    return _ptx(path, words)
                return (_amd if vendor == AMD else _intel)(target, path, words)
            except AssertionError as error:
                raise AssertionError(f"{name} on {target}: {error}") from None

    with ThreadPoolExecutor(CORES) as threads:
        made = list(threads.map(one, asked))
    codes = [code for code in made if isinstance(code, Code)]
    if made and vendor == NVIDIA:
        with TemporaryDirectory() as folder:
            codes = list(
                _nvidia(target, Path(folder), [ptx for ptx in made if isinstance(ptx, str)])
            )
    return dict(zip(asked, codes, strict=True))


@cache
def version(target: str) -> str:
    """Which compiler it is. Raises `Missing`."""
    vendor = TARGETS[target]
    if vendor == INTEL:
        known = sorted(OCLOC.glob("usr/lib/*/libigc.so.*"))
        _ocloc()
        return known[-1].name if known else "installed"
    said = _run([_clang(), "--version"]).splitlines()[0]
    made = re.search(r"\d+\.\d+\.\d+", said)
    found = [f"clang {made[0] if made else said}"]
    if vendor == NVIDIA:
        found += [f"ptxas {distribution('nvidia-cuda-nvcc').version}"] if _cuda("ptxas") else []
    return ", ".join(found)


def _clang() -> str:
    found = shutil.which(CLANG)
    if found is None:
        raise Missing(f"needs {CLANG}: apt-get install {CLANG}")
    return found


def _cuda(program: str) -> str:
    package = {"ptxas": "nvidia-cuda-nvcc", "nvdisasm": "nvidia-cuda-nvdisasm"}[program]
    try:
        files = distribution(package).files or ()
    except PackageNotFoundError:
        raise Missing(f"needs {program}: pip install {package}") from None
    (path,) = (one for one in files if one.name == program)
    return str(path.locate())


def _ocloc() -> tuple[str, dict[str, str]]:
    """The program, and the environment that it finds its libraries in."""
    own = OCLOC / "usr/bin/ocloc"
    found = str(own) if own.exists() else shutil.which("ocloc")
    if found is None:
        raise Missing("needs ocloc: see .ci/run")
    folders = ":".join(str(path) for path in sorted((OCLOC / "usr/lib").glob("*-linux-gnu")))
    return found, {**os.environ, "LD_LIBRARY_PATH": folders}


def _run(words: Sequence[str], env: dict[str, str] | None = None) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, env=env)
    assert done.returncode == 0, done.stderr or done.stdout
    return done.stdout + done.stderr


def _linked(*libraries: Path) -> list[str]:
    words = []
    for library in libraries:
        if not library.exists():
            package = "libclc-19" if library == LIBCLC else "rocm-device-libs"
            raise Missing(f"needs {library.name}: apt-get install {package}")
        words += ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(library)]
    return words


def _ptx(folder: Path, defines: list[str]) -> str:
    words = ["--target=nvptx64--nvidiacl", "-Xclang", "-cl-ext=+cl_khr_fp16", *_linked(LIBCLC)]
    words += ["-Xclang", "-target-cpu", "-Xclang", "sm_80"]
    words += ["-Xclang", "-target-feature", "-Xclang", "+ptx75"]
    ptx = folder / "k.ptx"
    _run([_clang(), *AS_CL, *words, *defines, "-o", str(ptx), str(folder / "k.cl")])
    return ptx.read_text()


NAMED = re.compile(
    r"^\s*(?:\.\w+\s+)*?(?:\.(?:entry|func)\s+(?:\([^)]*\)\s*)?|\.(?:shared|global|const)\s[^;]*?)"
    r"([\w$]+)\s*(?:[(\[;=]|$)",
    re.MULTILINE,
)
"""What all modules of PTX see that are assembled at once: kernels, functions, their variables."""


def apart(ptx: str, end: str) -> str:
    """PTX with that behind all its names, so that it has none in common with another's."""
    names = "|".join(sorted(map(re.escape, set(NAMED.findall(ptx)))))
    return re.sub(rf"(?<![\w$.%])({names})(?![\w$.])", rf"\g<1>{end}", ptx)


def _of_one(text: str, before: str, after: str, end: str) -> str:
    """The parts of a text that begin with a name of that end, which stands before and behind
    such words; the names as they were.
    """
    parts = (part.partition(after) for part in text.split(before)[1:])
    own = ((name.removesuffix(end), rest) for name, _, rest in parts if name.endswith(end))
    return "".join(f"{before}{name}{after}{rest}" for name, rest in own)


def _nvidia(target: str, folder: Path, modules: Sequence[str]) -> Iterator[Code]:
    """Modules of PTX, all in one call: nvdisasm takes a second before it reads anything."""
    ends = [f"__{i}" for i in range(len(modules))]
    paths = [folder / f"{end}.ptx" for end in ends]
    for path, ptx, end in zip(paths, modules, ends, strict=True):
        path.write_text(apart(ptx, end))
    cubin = str(folder / "k.cubin")
    notes = _run([_cuda("ptxas"), f"-arch={target}", "-v", "-o", cubin, *map(str, paths)])
    listing = _run([_cuda("nvdisasm"), "-c", cubin])
    for end in ends:
        yield Code(
            target,
            _of_one(listing, ".section\t.text.", ",", end),
            _of_one(notes, "entry function '", "'", end),
        )


def _amd(target: str, folder: Path, defines: list[str]) -> Code:
    wide = "off" if target.startswith(WAVES_OF_32) else "on"
    isa = target.removeprefix("gfx")
    isa = isa if (ROCM / f"oclc_isa_version_{isa}.bc").exists() else NEWEST_ISA
    switches = f"daz_opt_off unsafe_math_off finite_only_off correctly_rounded_sqrt_on \
        wavefrontsize64_{wide} isa_version_{isa} abi_version_500"
    names = ["opencl", "ocml", "ockl", *(f"oclc_{one}" for one in switches.split())]
    words = ["--target=amdgcn-amd-amdhsa", f"-mcpu={target}", "-nogpulib"]
    words += ["-mcode-object-version=5", *_linked(*(ROCM / f"{name}.bc" for name in names))]
    out = folder / "k.s"
    _run([_clang(), *AS_CL, *words, *defines, "-o", str(out), str(folder / "k.cl")])
    return Code(target, out.read_text())


def _intel(target: str, folder: Path, defines: list[str]) -> Code:
    ocloc, env = _ocloc()
    dumps = folder / "dumps"
    dumps.mkdir()
    env |= {"IGC_ShaderDumpEnable": "1", "IGC_DumpToCustomDir": str(dumps)}
    words = [ocloc, "compile", "-file", str(folder / "k.cl"), "-device", target]
    given = [*OPTIONS, *lanes_of_thread(SUB_GROUPS[target]), *registers(defines), *defines]
    words += ["-out_dir", str(folder), "-options", " ".join(given)]
    _run(words, env)
    # A kernel that spills is compiled once more, in a narrower way; the last listing is what runs.
    listings = sorted(dumps.glob("*.asm"), key=lambda path: path.stat().st_mtime_ns)
    last = {text.split("\n", 1)[0]: text for text in (path.read_text() for path in listings)}
    private = "\n".join(
        line
        for path in dumps.glob("*codegen*.ll")
        for line in path.read_text().splitlines()
        if "privateMemoryPerWI" in line
    )
    return Code(target, "\n".join(last.values()), private)
