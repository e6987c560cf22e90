"""What a kernel's own source says of its parameters, read by a preprocessor of its own.

What was read is kept beside the kernels that were built, under the source and its defines.
"""

import io
import os
import re
from collections.abc import Mapping
from hashlib import sha256

from pcpp import Preprocessor, __version__

from engine.backends.opencl.source import source
from engine.settings import cache_folder

# `__kernel`, attributes, `void name(parameters) {`; parameters hold no brackets.
KERNEL = re.compile(r"__kernel\b[^;{}]*?\bvoid\s+(\w+)\s*\(([^()]*)\)\s*\{")
NUMBERS = re.compile(r"typedef\s+struct\s*\{([^{}]*)\}\s*Numbers\s*;")
PARAMETER = re.compile(r"(.*?)(\w+)")
LINE = re.compile(r"^#line .*$", re.MULTILINE)  # where the preprocessor left out many

Parameters = list[tuple[str, str]]
GIVEN = ("Numbers", "given")


def kernels(family: str, defines: Mapping[str, int | str]) -> dict[str, Parameters]:
    """The kernels of a program: for each its parameters, (type, name) in order, and behind
    `Numbers given` what that struct holds.
    """
    text = source(family)
    named = "\0".join((__version__, text, *(f"{name} {value}" for name, value in defines.items())))
    kept = cache_folder() / "expanded" / sha256(named.encode()).hexdigest()[:32]
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        unique = kept.with_suffix(f".{os.getpid()}")  # another process may write it, too
        unique.write_text(signatures(text, defines), "utf-8")
        unique.replace(kept)
    found = kept.read_text("utf-8")
    numbers = [member for inside in NUMBERS.findall(found) for member in members_of(inside)]
    taken = {name: parameters_of(inside) for name, inside in KERNEL.findall(found)}
    return {name: [*p, *numbers] if p[-1] == GIVEN else p for name, p in taken.items()}


def signatures(text: str, defines: Mapping[str, int | str]) -> str:
    """All `__kernel void name(parameters) {` behind the preprocessor, and the struct `Numbers`."""
    preprocessor = Preprocessor()
    for name, value in defines.items():
        preprocessor.define(f"{name} {value}")
    preprocessor.parse(text)
    expanded = io.StringIO()
    preprocessor.write(expanded)
    found = [*NUMBERS.finditer(expanded.getvalue()), *KERNEL.finditer(expanded.getvalue())]
    return "\n".join(one[0] for one in found)


def parameters_of(inside: str) -> Parameters:
    """`const __global char *x_buf, int n` as [("__global char *", "x_buf"), ("int", "n")]."""
    found = []
    for one in inside.split(","):
        whole = PARAMETER.fullmatch(" ".join(one.split()))
        assert whole, one
        words = [word for word in whole[1].replace("*", " * ").split() if word != "const"]
        found.append((" ".join(words), whole[2]))
    return found


def members_of(inside: str) -> Parameters:
    """`long x_off, y_off; int n;` as [("long", "x_off"), ("long", "y_off"), ("int", "n")]."""
    inside = LINE.sub("", inside)
    lines = [" ".join(line.split()).partition(" ") for line in inside.split(";") if line.strip()]
    return [(kind, name.strip()) for kind, _, names in lines for name in names.split(",")]
