"""Kernels as the vendors' compilers make them get no worse; a planted fault is seen."""

import shutil
import subprocess
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import msgspec
import pytest

from engine.backends.opencl.source import source
from tests.judge import judge
from tests.judge.compilers import (
    AS_CL,
    CLANG,
    DOTS,
    HALVES,
    INTEL,
    MATRIX,
    TARGETS,
    Code,
    Missing,
    apart,
    compiled,
    version,
)
from tests.judge.figures import UNITS, Figures, Instruction, figures, hottest, repeated
from tests.judge.judge import judged, kept, worse
from tests.judge.plans import OWN, Program, programs

one_of_each = pytest.mark.full_cases("sm_80|gfx906|gfx90a|pvc")
"""Of each vendor's devices one; the others with `-m full`."""


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> str:
    """A device whose compiler is here."""
    try:
        version(request.param)
    except Missing as missing:
        pytest.skip(str(missing))
    return str(request.param)


@pytest.fixture
def asked(target: str, headers: Callable[[str, str, str], list[Program]]) -> list[Program]:
    """The programs of the plans there."""
    return headers(DOTS[target], MATRIX[target], HALVES[target])


@pytest.fixture(scope="session")
def headers(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str, str], list[Program]]:
    return cache(partial(programs, tmp_path_factory.mktemp("headers")))


@one_of_each
def test_no_figure_is_worse(target: str, asked: list[Program]) -> None:
    found = judged(target, asked)
    assert found.keys() <= kept().kernels.keys(), "python -m tests.judge --write"
    assert not worse(found, target, kept())


@one_of_each
def test_no_kernel_has_scratch(target: str, asked: list[Program]) -> None:
    assert not [name for name, figure in judged(target, asked).items() if figure.scratch]


def one_of(asked: list[Program], family: str, *defines: str) -> Program:
    return next(p for p in asked if p.family == family and set(defines) <= set(p.defines))


def planted(family: str, old: str, new: str) -> Callable[[str], str]:
    """The sources with a fault in one of them."""
    text = source(family)
    assert text.count(old) == 1, old

    return lambda name: text.replace(old, new) if name == family else source(name)


@one_of_each
def test_a_planted_spill_is_seen(target: str, asked: list[Program]) -> None:
    """Sums that are found by a number which only the device knows lie in memory."""
    program = one_of(asked, "norm_chain", "FIRST=0")
    fault = planted(
        "norm_chain",
        "      float shift = CAT(NORM2, _shift)(x), factor",
        "      float own[512];\n"
        "      for (int i = 0; i < 512; i++) own[i] = x[i * given.per_group];\n"
        "      x += (int)own[given.panel & 511] & 4;\n"
        "      float shift = CAT(NORM2, _shift)(x), factor",
    )
    found = judged(target, [program], fault)
    assert found[program.name].scratch
    assert any("scratch" in line for line in worse(found, target, kept()))


DECODE = {
    "Q4_K": ("WORDS=4", "HALVES=2", "HIGH=0"),
    "Q4_0": ("WORDS=4", "HALVES=1", "HIGH=0"),
    "Q8_0": ("WORDS=8", "HALVES=1"),
    "Q6_K": ("HIGH=2", "SUMS=2"),
}


@pytest.mark.parametrize("target", ["sm_90"], indirect=True)
@pytest.mark.parametrize("fmt", DECODE)
def test_few_instructions_decode_a_weight(fmt: str, asked: list[Program], target: str) -> None:
    """Of the inner loop, with what it loads, adds and counts."""
    program = one_of(asked, "matmul_tiled", "PANEL=1", *DECODE[fmt])
    assert program.kernel == "matmul"
    assert 0.5 < judged(target, [program])[program.name].each <= (2.6 if fmt == "Q6_K" else 1.6)


@one_of_each
def test_prompts_are_multiplied_by_matrix_units(target: str, asked: list[Program]) -> None:
    """In the inner loop; by four products of bytes at once where there are none."""
    found = judged(target, [p for p in asked if p.family == "matmul_wide"])
    assert len(found) >= 6
    for figure in found.values():
        assert figure.units >= 8 if MATRIX[target] else figure.each
        assert figure.each < (0.7 if MATRIX[target] else 2.0)


@one_of_each
def test_prompts_attend_by_matrix_units(target: str, asked: list[Program]) -> None:
    """Where there are some; Intel's threads have twice the registers then."""
    wide = [p for p in asked if p.family == "attention_wide"]
    assert len(wide) == 2
    for program in wide[:1]:
        assert ("LARGE_GRF=1" in program.defines) == (TARGETS[target] == INTEL)
        asked_for = {program.name: (source(program.family), program.defines)}
        code = compiled(target, asked_for)[program.name]
        assert any(name in code.listing for name in UNITS) == bool(HALVES[target])


@pytest.mark.parametrize("target", ["sm_90"], indirect=True)
def test_rows_of_floats_are_read_in_fours(target: str, asked: list[Program]) -> None:
    """By NVIDIA's compiler, which makes a load of each element where no more is known (ALIGNED)."""
    rows = ("norm_chain", "quantize", "activation_quantize", "rope_store", "attention_wide")
    chosen = [p for p in asked if p.family in rows or any("NORMED" in one for one in p.defines)]
    assert len(chosen) > 8
    for program in chosen:
        assert "ALIGNED=1" in program.defines
        figure = judged(target, [program])[program.name]
        floats = figure.loads["128"]
        assert floats >= (8 if program.family in rows else 16)
        assert program.family not in rows or floats > 4 * figure.narrow


@pytest.mark.parametrize("target", ["sm_90"], indirect=True)
def test_keys_and_values_are_read_in_eights(target: str, asked: list[Program]) -> None:
    """By lanes that attend: no half is read alone."""
    chosen = [p for p in asked if p.family == "attention_lanes" and "KV=f16" in p.defines]
    assert len(chosen) >= 3
    for program in chosen:
        loads = judged(target, [program])[program.name].loads
        assert loads["128"] >= 16
        assert "16" not in loads


@one_of_each
def test_a_planted_narrow_load_is_seen(target: str, asked: list[Program]) -> None:
    """A weight's words byte by byte."""
    program = one_of(asked, "matmul_tiled", "PANEL=1", "WORDS=8", "HALVES=1")
    fault = planted(
        "matmul_tiled",
        "  #define WORD_AT(a, i, lane) (((const RECORDS_IN uint *)(a))[(i) * TILE + (lane)])",
        "static uint word_by_byte(const volatile RECORDS_IN uchar *q) {\n"
        "  return q[0] | q[1] << 8 | q[2] << 16 | (uint)q[3] << 24;\n"
        "}\n"
        "  #define WORD_AT(a, i, lane) word_by_byte("
        "(const volatile RECORDS_IN uchar *)(a) + 4 * ((i) * TILE + (lane)))",
    )
    found = judged(target, [program], fault)
    assert any(": narrow" in line for line in worse(found, target, kept()))


def test_figures_of_other_targets_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old, new = Figures(40, 0, 8, {}, 9, 0), Figures(39, 0, 8, {}, 9, 0)
    kernels = {"a.a": {"sm_80": old, "sm_90": old}, "gone.gone": {"sm_80": old, "sm_90": old}}
    path = tmp_path / "figures.json"
    path.write_bytes(msgspec.json.encode(judge.Kept({"sm_80": "x", "sm_90": "y"}, kernels)))
    monkeypatch.setattr(judge, "KEPT", path)
    monkeypatch.setattr(judge, "programs", lambda *_: [Program("a", "a", ())])
    monkeypatch.setattr(judge, "judged", lambda *_: {"a.a": new})
    monkeypatch.setattr(judge, "version", lambda _: "z")
    assert judge.main(["--write", "--target", "sm_90"]) == 0
    assert kept() == judge.Kept(
        {"sm_80": "x", "sm_90": "z"},
        {"a.a": {"sm_80": old, "sm_90": new}, "gone.gone": {"sm_80": old}},
    )


def test_the_hottest_loop_holds_no_other() -> None:
    a, b, c = (Instruction(name, 32) for name in "abc")
    lines = ["out", a, "in", b, b, Instruction("jump", to="in"), c, Instruction("jump", to="out")]
    assert [one.name for one in hottest(lines)] == ["b", "b", "jump"]
    assert len(repeated(lines)) == 6
    assert hottest([a, "past", Instruction("jump", to="past2"), "past2"]) == []


def test_what_a_listing_tells() -> None:
    """A loop of NVIDIA's, by hand."""
    notes = (
        "ptxas info    : Compiling entry function 'k' for 'sm_90'\n"
        "    8 bytes stack frame, 16 bytes spill stores, 16 bytes spill loads\n"
        "ptxas info    : Used 40 registers, used 1 barriers\n"
    )
    listing = """
        .section\t.text.k,"ax",@progbits
        /*0000*/                   LDG.E.U8.CONSTANT R1, desc[UR4][R2.64] ;
.L_x_0:
        /*0010*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0020*/              @!P0 LDG.E R8, desc[UR4][R2.64] ;
        /*0030*/                   IDP.4A.S8.S8 R1, R4, R5, R6 ;
        /*0040*/               @P1 BRA `(.L_x_0) ;
        /*0050*/                   EXIT ;
"""
    found = figures(Code("sm_90", listing, notes))["k"]
    assert (found.registers, found.scratch, found.occupancy) == (40, 24, 51)
    assert found.loads == {"8": 1, "32": 1, "128": 1}
    assert (found.loop, found.narrow, found.each) == (4, 1, 2.0)


def test_modules_that_are_assembled_at_once_share_no_name() -> None:
    """Kernels, functions, and what both read; opcodes and parameters are as they were."""
    ptx = """
// .globl max
.shared .align 4 .b8 max_$_sums[64];
.extern .shared .align 16 .b8 rows[];
.global .align 4 .u32 table = 3;
.func (.param .b32 func_retval0) half(
	.param .b32 half_param_0
)
.visible .entry max(
	.param .u64 max_param_0
)
{
	ld.param.u64 %rd1, [max_param_0];
	mov.u32 %max, max_$_sums;
	max.f32 %f1, %f2, %f3;
	call.uni (retval0), half, (param0);
}
"""
    made = apart(ptx, "__7").splitlines()
    changed = [now for was, now in zip(ptx.splitlines(), made, strict=True) if was != now]
    assert changed == [
        "// .globl max__7",
        ".shared .align 4 .b8 max_$_sums__7[64];",
        ".extern .shared .align 16 .b8 rows__7[];",
        ".global .align 4 .u32 table__7 = 3;",
        ".func (.param .b32 func_retval0) half__7(",
        ".visible .entry max__7(",
        "\tmov.u32 %max, max_$_sums__7;",
        "\tcall.uni (retval0), half__7, (param0);",
    ]


NOTHING_OPTIONAL = ("--target=spir64", "-Xclang", "-cl-ext=-all", "-fsyntax-only")
"""A compiler without halves as numbers (cl_khr_fp16) and without functions of sub-groups."""


def refused(text: str, *defines: str) -> str:
    """What such a compiler says against a program."""
    if shutil.which(CLANG) is None:
        pytest.skip(f"needs {CLANG}: apt-get install {CLANG}")
    words = [CLANG, *AS_CL, *NOTHING_OPTIONAL, *(f"-D{one}" for one in defines), "-"]
    return subprocess.run(words, input=text, capture_output=True, text=True, check=False).stderr


@pytest.mark.parametrize("dot4", ["", "AMD"])
def test_devices_without_halves_and_sub_groups_take_every_kernel(
    dot4: str, headers: Callable[[str, str, str], list[Program]]
) -> None:
    """Those of the plans that they get, each once, with and without dot products in hardware."""
    asked = {(p.family, p.kernel, "SHARED=1" in p.defines): p for p in headers(dot4, "", "")}
    assert len(asked) > 12
    for program in asked.values():
        assert not any(one.startswith(OWN[1:]) for one in program.defines)
        plain = (one for one in program.defines if not one.startswith(OWN))
        assert not refused(source(program.family), *plain), program.name


@pytest.mark.parametrize("line", ["half v = (half)x[0];", "x[0] = sub_group_reduce_add(x[0]);"])
def test_a_planted_half_and_a_planted_sub_group_are_seen(line: str) -> None:
    kernel = "__kernel void planted(__global float *x) {"
    assert not refused(f"{source('best')}\n{kernel} }}")
    assert refused(f"{source('best')}\n{kernel} {line} }}")


def test_headers_make_the_steps_of_whole_models(
    headers: Callable[[str, str, str], list[Program]],
) -> None:
    asked = headers("", "", "")
    families = {program.family for program in asked}
    assert {"matmul_tiled", "matmul_experts", "norm_chain", "rope_store", "route"} <= families
    assert any("ACT=GELU" in program.defines for program in asked)
