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
PARAMETER = re.compile(r"(.*?)(\w+)")

Parameters = list[tuple[str, str]]


def kernels(family: str, defines: Mapping[str, int | str]) -> dict[str, Parameters]:
    """The kernels of a program: for each its parameters, (type, name) in order."""
    text = source(family)
    named = "\0".join((__version__, text, *(f"{name} {value}" for name, value in defines.items())))
    kept = cache_folder() / "expanded" / sha256(named.encode()).hexdigest()[:32]
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        unique = kept.with_suffix(f".{os.getpid()}")  # another process may write it, too
        unique.write_text(signatures(text, defines), "utf-8")
        unique.replace(kept)
    return {name: parameters_of(inside) for name, inside in KERNEL.findall(kept.read_text("utf-8"))}


def signatures(text: str, defines: Mapping[str, int | str]) -> str:
    """All `__kernel void name(parameters) {` behind the preprocessor."""
    preprocessor = Preprocessor()
    for name, value in defines.items():
        preprocessor.define(f"{name} {value}")
    preprocessor.parse(text)
    expanded = io.StringIO()
    preprocessor.write(expanded)
    return "\n".join(found[0] for found in KERNEL.finditer(expanded.getvalue()))


def parameters_of(inside: str) -> Parameters:
    """`const __global char *x_buf, int n` as [("__global char *", "x_buf"), ("int", "n")]."""
    found = []
    for one in inside.split(","):
        whole = PARAMETER.fullmatch(" ".join(one.split()))
        assert whole, one
        words = [word for word in whole[1].replace("*", " * ").split() if word != "const"]
        found.append((" ".join(words), whole[2]))
    return found
