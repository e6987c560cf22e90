"""What a kernel's own source says of its parameters, read by a preprocessor of its own."""

import io
import re
from collections.abc import Mapping

from pcpp import Preprocessor

from engine.backends.opencl.source import source

# `__kernel`, attributes, `void name(parameters) {`; parameters hold no brackets.
KERNEL = re.compile(r"__kernel\b[^;{}]*?\bvoid\s+(\w+)\s*\(([^()]*)\)\s*\{")
PARAMETER = re.compile(r"(.*?)(\w+)")

Parameters = list[tuple[str, str]]


def kernels(family: str, defines: Mapping[str, int | str]) -> dict[str, Parameters]:
    """The kernels of a program: for each its parameters, (type, name) in order."""
    preprocessor = Preprocessor()
    for name, value in defines.items():
        preprocessor.define(f"{name} {value}")
    preprocessor.parse(source(family))
    text = io.StringIO()
    preprocessor.write(text)
    return {name: parameters_of(inside) for name, inside in KERNEL.findall(text.getvalue())}


def parameters_of(inside: str) -> Parameters:
    """`const __global char *x_buf, int n` as [("__global char *", "x_buf"), ("int", "n")]."""
    found = []
    for one in inside.split(","):
        whole = PARAMETER.fullmatch(" ".join(one.split()))
        assert whole, one
        words = [word for word in whole[1].replace("*", " * ").split() if word != "const"]
        found.append((" ".join(words), whole[2]))
    return found
