"""Figures of all programs of the plans, and what is worse than those that are kept.

python -m tests.judge            a table
python -m tests.judge --write    keeps what is better; what is worse is named, and nothing kept
python -m tests.judge --write --worse FAMILY ...    families whose figures may get worse
"""

import argparse
import os
import shutil
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from engine.backends.opencl.source import source
from engine.settings import cache_folder
from tests.judge.compilers import (
    CLANG,
    CORES,
    DOTS,
    HALVES,
    MATRIX,
    TARGETS,
    Missing,
    compiled,
    version,
)
from tests.judge.figures import Figures, figures
from tests.judge.plans import Program, programs

KEPT = Path(__file__).with_name("figures.json")
OTHER_COMPILER = 1.1
"""How much more is not worse where the figures are another compiler version's."""


class Kept(msgspec.Struct):
    """The file of figures: which compiler made each target's, and those of every kernel there."""

    compilers: dict[str, str]
    kernels: dict[str, dict[str, Figures]]


@cache
def plain(text: str, defines: tuple[str, ...]) -> str:
    """Return the text that these defines leave of a program, without comments: the same where a
    change of the sources does not touch it. The text itself where there is no clang.
    """
    if shutil.which(CLANG) is None:
        return text
    words = [CLANG, "-E", "-P", "-x", "cl", *(f"-D{one}" for one in defines), "-"]
    return subprocess.run(words, input=text, capture_output=True, text=True, check=True).stdout


def judged(
    target: str, asked: Sequence[Program], text_of: Callable[[str], str] = source
) -> dict[str, Figures]:
    """Figures of programs by name; those made before of the same text come from the cache.

    Raises `Missing`.
    """
    folder = cache_folder() / "judged"
    folder.mkdir(parents=True, exist_ok=True)
    own = sha256(Path(__file__).with_name("figures.py").read_bytes())
    own.update(Path(__file__).with_name("compilers.py").read_bytes())
    stamp = (target, version(target), own.hexdigest())

    def path(program: Program, text: str) -> Path:
        return folder / sha256(repr((stamp, program, text)).encode()).hexdigest()[:32]

    def keep(program: Program, figure: Figures, *texts: str) -> None:
        for text in texts:
            unique = path(program, text).with_suffix(f".{os.getpid()}")  # another may write it, too
            unique.write_bytes(msgspec.json.encode(figure))
            unique.replace(path(program, text))

    def known(program: Program) -> Figures | None:
        """Of the text as it is, which asks no compiler; else of what its defines leave of it."""
        text = text_of(program.family)
        for as_it_is in (True, False):
            at = path(program, text if as_it_is else plain(text, program.defines))
            if at.exists():
                figure = msgspec.json.decode(at.read_bytes(), type=Figures)
                if not as_it_is:
                    keep(program, figure, text)
                return figure
        return None

    with ThreadPoolExecutor(CORES) as threads:
        found = dict(zip(asked, threads.map(known, asked), strict=True))
    new = {p.name: (text_of(p.family), p.defines) for p, figure in found.items() if figure is None}
    codes = compiled(target, new)
    for program, figure in found.items():
        if figure is None:
            text = text_of(program.family)
            figure = figures(codes[program.name], program.multiply_adds)[program.kernel]
            keep(program, figure, text, plain(text, program.defines))
            found[program] = figure
    return {program.name: figure for program, figure in found.items() if figure}


def kept() -> Kept:
    """What the file has."""
    return msgspec.json.decode(KEPT.read_bytes(), type=Kept)


def worse(now: Mapping[str, Figures], target: str, before: Kept) -> list[str]:
    """What got worse on a target, a line each; of kernels that the file does not have, nothing."""
    slack = 1.0 if before.compilers[target] == version(target) else OTHER_COMPILER
    found = []
    for name, figure in now.items():
        then = before.kernels.get(name, {}).get(target)
        for what in ("registers", "scratch", "narrow", "loop", "each") if then else ():
            had, has = getattr(then, what), getattr(figure, what)
            if has > had * slack:
                found.append(f"{target} {name}: {what} {had} -> {has}")
        if then and figure.occupancy * slack < then.occupancy:
            found.append(f"{target} {name}: occupancy {then.occupancy} -> {figure.occupancy}")
    return found


def _print(target: str, found: Mapping[str, Figures]) -> None:
    print(f"\n{target} ({version(target)})")
    print(
        f"{'regs':>5}{'scratch':>8}{'waves':>6}{'loop':>6}{'each':>7}{'narrow':>7}  loads, kernel"
    )
    for name, f in sorted(found.items()):
        loads = " ".join(f"{n}x{bits}" for bits, n in f.loads.items())
        print(
            f"{f.registers:5}{f.scratch:8}{f.occupancy:6}{f.loop:6}{f.each:7}{f.narrow:7}"
            f"  {loads}; {name}"
        )


def _keep_others(before: Kept, now: Kept, made: Collection[str]) -> None:
    """Add the figures of targets that were not asked for."""
    for name, figures_of in before.kernels.items():
        rest = {target: f for target, f in figures_of.items() if target not in made}
        if rest:
            both = rest | now.kernels.get(name, {})
            now.kernels[name] = {target: both[target] for target in TARGETS if target in both}


def _write(now: Kept) -> None:
    """One line for a kernel and target, so that a change of one is a change of a line."""
    encode = msgspec.json.encode
    rows = []
    for name, found in sorted(now.kernels.items()):
        lines = [f"   {encode(t).decode()}:{encode(f).decode()}" for t, f in found.items()]
        rows.append(f"  {encode(name).decode()}:{{\n" + ",\n".join(lines) + "\n  }")
    compilers = msgspec.json.format(encode(now.compilers), indent=2).decode()
    body = ",\n".join(rows)
    KEPT.write_text(f'{{"compilers":{compilers},\n"kernels":{{\n{body}\n}}}}\n')


def main(given: Sequence[str] | None = None) -> int:
    """Prints the table of every target whose compiler is here."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.judge",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--worse", nargs="*", default=[], metavar="FAMILY")
    parser.add_argument("--target", choices=TARGETS, action="append")
    args = parser.parse_args(given)
    before = kept() if KEPT.exists() else Kept({}, {})
    now, faults = Kept(dict(before.compilers), {}), []
    for target in args.target or TARGETS:
        with TemporaryDirectory() as folder:
            asked = programs(Path(folder), DOTS[target], MATRIX[target], HALVES[target])
        try:
            found = judged(target, asked)
        except Missing as missing:
            print(f"\n{target}: {missing}")
            names = {program.name for program in asked}
            found = {n: f[target] for n, f in before.kernels.items() if n in names and target in f}
        else:
            _print(target, found)
            if target in before.compilers:
                faults += worse(found, target, before)
            now.compilers[target] = version(target)
        for name, figure in found.items():
            now.kernels.setdefault(name, {})[target] = figure
    _keep_others(before, now, args.target or TARGETS)
    faults = [one for one in faults if not any(f" {family}." in one for family in args.worse)]
    print(*faults, sep="\n")
    if args.write and not faults:
        _write(now)
    return bool(faults)
