"""What a listing tells of a kernel: registers, scratch, occupancy, loads, its hottest loop."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from tests.judge.compilers import AMD, INTEL, NVIDIA, TARGETS, Code

WIDEST = 128
"""Bits of the widest load of a lane."""


class Figures(msgspec.Struct, frozen=True):
    """Of one kernel on one target.

    `scratch` is bytes of a lane's stack or spills. `occupancy` is warps an SM on NVIDIA, waves a
    SIMD on AMD, lanes a thread on Intel. `loads` counts loads from global memory by their bits.
    `narrow` counts those under 128 bits that stand in a loop, `loop` the instructions of the
    longest innermost loop, `units` those of them that multiply fragments of matrices, and `each`
    its instructions for a multiply-add of a lane, 0 where none is known.
    """

    registers: int
    scratch: int
    occupancy: int
    loads: dict[str, int]
    loop: int
    narrow: int
    each: float = 0.0
    units: int = 0


class Instruction(NamedTuple):
    """`load` is the bits a lane loads from global memory, 0 for anything else. `to` is where it
    jumps.
    """

    name: str
    load: int = 0
    to: str = ""


Line = Instruction | str
"""An instruction, or a label."""


class Kernel(NamedTuple):
    """A kernel's lines, and what its compiler says of it."""

    name: str
    lines: list[Line]
    registers: int
    scratch: int
    occupancy: int


DOTS = re.compile(r"IDP|v_dot4|dp4a")
UNITS = {
    "IMMA.16832": 128 / 2,
    "IMMA.16816": 64 / 2,
    "HMMA.16816": 64,
    "v_wmma_f32_16x16x16": 128,
    "v_mfma_f32_16x16x16": 64,
    "dpas.8x8": 128,
}
"""Multiply-adds of a lane in an instruction of matrix units; of bytes two make one."""


def figures(code: Code, multiply_adds: int = 0) -> dict[str, Figures]:
    """By kernel. A loop without dot products makes so many multiply-adds, where it is given."""
    read: Mapping[str, Callable[[Code], Iterator[Kernel]]] = {
        NVIDIA: _nvidia,
        AMD: _amd,
        INTEL: _intel,
    }
    return {one.name: _of(one, multiply_adds) for one in read[TARGETS[code.target]](code)}


def _of(kernel: Kernel, multiply_adds: int) -> Figures:
    loop = hottest(kernel.lines)
    dots = sum(DOTS.search(one.name) is not None for one in loop)
    # Four products of codes and the digits of an activation, of which it has two.
    units = [made for one in loop for name, made in UNITS.items() if one.name.startswith(name)]
    made = sum(units) or dots * 2 or multiply_adds
    everywhere = Counter(str(i.load) for i in _only(kernel.lines) if i.load)
    return Figures(
        registers=kernel.registers,
        scratch=kernel.scratch,
        occupancy=kernel.occupancy,
        loads=dict(sorted(everywhere.items(), key=lambda item: int(item[0]))),
        loop=len(loop),
        narrow=sum(0 < one.load < WIDEST for one in repeated(kernel.lines)),
        each=round(len(loop) / made, 2) if made else 0.0,
        units=len(units),
    )


def _only(lines: Iterable[Line]) -> list[Instruction]:
    return [line for line in lines if isinstance(line, Instruction)]


def _spans(lines: list[Line]) -> list[tuple[int, int]]:
    """The first and the last line of every loop: from a label to a jump back to it."""
    at = {line: i for i, line in enumerate(lines) if isinstance(line, str)}
    return [
        (at[line.to], i)
        for i, line in enumerate(lines)
        if isinstance(line, Instruction) and at.get(line.to, i) < i
    ]


def repeated(lines: list[Line]) -> list[Instruction]:
    """All that stands in some loop."""
    inside = {i for a, b in _spans(lines) for i in range(a, b + 1)}
    return _only(lines[i] for i in sorted(inside))


def hottest(lines: list[Line]) -> list[Instruction]:
    """The longest of the loops that hold no other loop."""
    spans = _spans(lines)
    inner = [
        (a, b)
        for a, b in spans
        if not any(a <= c and d <= b and (a, b) != (c, d) for c, d in spans)
    ]
    return max((_only(lines[a : b + 1]) for a, b in inner), key=len, default=[])


# NVIDIA: `/*0120*/  @P0 LDG.E.128 R4, ... ;` and `@!P0 BRA `(.L_x_3) ;` between labels `.L_x_3:`.
_SASS = re.compile(r"\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P[0-9T]+ )?([A-Z][A-Z0-9_.]*)(.*)")
_SAID = re.compile(
    r"entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores.*?"
    r"Used (\d+) registers",
    re.DOTALL,
)
REGISTERS_OF_SM, WARPS_OF_SM = 65536, 64


def _nvidia(code: Code) -> Iterator[Kernel]:
    said = {name: tuple(map(int, rest)) for name, *rest in _SAID.findall(code.notes)}
    for section in code.listing.split(".section\t.text.")[1:]:
        name = section.split(",", 1)[0]
        stack, spilled, registers = said[name]
        warps = REGISTERS_OF_SM // (-(-registers // 8) * 8 * 32)
        yield Kernel(
            name, list(_sass(section)), registers, stack + spilled, min(WARPS_OF_SM, warps)
        )


def _sass(section: str) -> Iterator[Line]:
    for text in section.splitlines():
        if text.startswith(".L"):
            yield text.rstrip(":")
        elif found := _SASS.match(text):
            name, rest = found.groups()
            if name == "NOP":
                continue
            bits = 0
            if name.startswith(("LDG.", "LD.")):
                shape = re.sub(r"\.(CONSTANT|STRONG|GPU|SYS|EF|EL|LTC\w+|NA|LU)\b", "", name)
                width = re.search(r"\.(U8|S8|U16|S16|64|128)\b", shape)
                bits = int(width[1].strip("US")) if width else 32
            jump = re.search(r"`\((\.L\w+)\)", rest) if name.startswith("BRA") else None
            yield Instruction(name, bits, jump[1] if jump else "")


# AMD: `	global_load_dwordx4 v[0:3], ...` and `s_cbranch_vccnz .LBB0_5` between labels.
_GCN = re.compile(r"\t([a-z]\w+)\s*(.*)")
_STACK = ("scratch_", "buffer_load", "buffer_store")
_NOTED = re.compile(r"; (\w+): (\d+)")
_GLOBAL = re.compile(r"(?:global|flat|buffer)_load_(\w+)")
_BITS = {"ubyte": 8, "sbyte": 8, "u8": 8, "i8": 8, "ushort": 16, "sshort": 16, "u16": 16, "i16": 16}
_WORDS = {"dword": 32, "b32": 32, "dwordx2": 64, "b64": 64, "dwordx3": 96, "b96": 96}


def _amd(code: Code) -> Iterator[Kernel]:
    names = re.findall(r"\.amdhsa_kernel (\w+)", code.listing)
    for name in names:
        begin = code.listing.index(f"\n{name}:")
        body, rest = code.listing[begin:].split(".Lfunc_end", 1)

        lines = list(_gcn(body))
        said = {what: int(n) for what, n in reversed(_NOTED.findall(rest))}  # the first counts
        if not any(one.name.startswith(_STACK) for one in _only(lines)):
            said["ScratchSize"] = 0  # room for scalars, all of which went to other registers
        sizes = (said[what] for what in ("NumVgprs", "ScratchSize", "Occupancy"))
        yield Kernel(name, lines, *sizes)


def _gcn(body: str) -> Iterator[Line]:
    for text in body.splitlines():
        if text.startswith(".LBB"):
            yield text.split(":", 1)[0]
        elif found := _GCN.match(text):
            name, rest = found.groups()
            kind = _GLOBAL.match(name)
            bits = 0
            if kind is not None:
                shape = re.sub(r"_d16.*", "", kind[1])
                bits = _BITS.get(shape) or _WORDS.get(shape, WIDEST)
            jump = rest.split()[0] if "branch" in name and rest else ""
            yield Instruction(name, bits, jump)


# Intel: `(W) mov (8|M0) r4.0<1>:f ...  // $12`; loads are sends, which a comment explains on dg2,
# and whose name does on pvc.
_GEN = re.compile(r"\s*(?:\([^)]*\)\s+)?([a-z][\w.]*)\s+(?:\((\d+)\|M\d+\))?(.*)")
_GATHERED = re.compile(r"rd:(\d+); a64 (?:d|q)word gathering read")
_LSC = re.compile(r"load\.ugm\.d(\d+)(?:u\d+)?(?:x(\d+))?(t?)")
BITS_OF_GRF = {"dg2": 256, "pvc": 512}


def _intel(code: Code) -> Iterator[Kernel]:
    private = max(map(int, re.findall(r"i32 (\d+)", code.notes)), default=0)
    for part in code.listing.split("//.kernel ")[1:]:
        name = part.split("\n", 1)[0].strip()
        spilled = re.search(r"//\.spill size (\d+)", part)
        grfs = re.search(r"numGRF=(\d+)", part)
        lines = list(_gen(part, BITS_OF_GRF[code.target]))
        lanes = _lanes(part)
        yield Kernel(
            name,
            lines,
            int(grfs[1]) if grfs else 0,
            private + (int(spilled[1]) if spilled else 0),
            lanes,
        )


def _lanes(part: str) -> int:
    """Lanes of a thread, as its arithmetic has them most often."""
    widths = Counter(int(width) for width in re.findall(r"\((8|16|32)\|M0\)", part))
    return max(widths, key=lambda width: (widths[width], width), default=0)


def _gen(part: str, grf: int) -> Iterator[Line]:
    for text in part.splitlines():
        if text.startswith("//") or not text.strip():
            continue
        if re.match(r"[\w]+:", text):
            yield text.split(":", 1)[0]
            continue
        found = _GEN.match(text)
        if found is None:
            continue
        name, lanes, rest = found.groups()
        # Of a backward `goto.b` the second label is that of the loop.
        jumps = name in ("jmpi", "while", "goto", "goto.b", "brd", "brc")
        target = rest.split("//")[0].split()[name == "goto.b" :][:1] if jumps else []
        yield Instruction(
            name, _sent(name, int(lanes or 1), rest, grf), target[0] if target else ""
        )


def _sent(name: str, lanes: int, rest: str, grf: int) -> int:
    """Bits that each lane loads."""
    lsc = _LSC.match(name)
    if lsc:
        uniform = lsc[3] == "t"
        return 0 if uniform else min(WIDEST, int(lsc[1]) * int(lsc[2] or 1))
    if not name.startswith("send"):
        return 0
    if gathered := _GATHERED.search(rest):
        return min(WIDEST, int(gathered[1]) * grf // lanes)
    if narrow := re.search(r"a64 byte gathering read (\d+)b", rest):
        return int(narrow[1])
    words = re.search(r"untyped surface read with (x\w*)", rest)
    shared = re.search(r"0x[0-9A-F]{6}FE\b", rest)
    return 32 * len(words[1]) if words and not shared else 0
