"""Shape rules of the operations; every error shows the shapes."""

import re

import pytest

from engine.errors import ShapeError
from engine.gguf.formats import BF16, F16, F32, I32, Q4_1
from engine.graph import ops
from engine.graph.op import Op
from engine.graph.tensor import Role, Tensor, leaf


def t(*shape: int, fmt=F32) -> Tensor:
    return leaf("t", fmt, shape, Role.INPUT)


def i(*shape: int) -> Tensor:
    return t(*shape, fmt=I32)


def see(n: int, cells: int) -> tuple[Tensor, Tensor, Tensor]:
    return i(4, n), i(2, cells), i(1)


MADE = {
    "add": (lambda: ops.add(t(6, 4), t(3, 2)), F32, (6, 4)),
    "mul of f16": (lambda: ops.mul(t(6, 4, fmt=F16), t(6)), F16, (6, 4)),
    "silu": (lambda: ops.silu(t(6, 4), t(6, 4)), F32, (6, 4)),
    "mulmat": (lambda: ops.mulmat(t(32, 7, fmt=Q4_1), t(32, 3)), F32, (7, 3)),
    "mulmat grouped": (lambda: ops.mulmat(t(8, 7, 2), t(8, 3, 6, 5)), F32, (7, 3, 6, 5)),
    "rms_norm": (lambda: ops.rms_norm(t(8, 3), t(8), 1e-5), F32, (8, 3)),
    "rope": (lambda: ops.rope(t(8, 2, 3, fmt=F16), t(6, 3), True), F32, (8, 2, 3)),
    "rows": (lambda: ops.rows(t(32, 9, fmt=Q4_1), i(5)), F32, (32, 5)),
    "rows of integers": (lambda: ops.rows(i(32, 9), i(5)), I32, (32, 5)),
    "set_rows": (lambda: ops.set_rows(t(8, 9, fmt=F16), t(8, 5), i(5)), F16, (8, 9)),
    "cast": (lambda: ops.cast(t(8, 3), BF16), BF16, (8, 3)),
    "contiguous": (lambda: ops.contiguous(t(8, 3).permute(1, 0)), F32, (3, 8)),
    "attention": (
        lambda: ops.attention(t(8, 6, 3), t(8, 2, 9), t(5, 2, 9), *see(3, 9), scale=1),
        F32,
        (5, 6, 3),
    ),
    "softmax": (lambda: ops.softmax(t(9, 3, 6), *see(3, 9)[:2]), F32, (9, 3, 6)),
}


@pytest.mark.parametrize("name", MADE)
def test_results(name: str) -> None:
    make, fmt, dims = MADE[name]
    made = make()
    assert (made.fmt, made.dims) == (fmt, dims)


REFUSED = {
    "add": (lambda: ops.add(t(6, 4), t(4)), "[6, 4, 1, 1] and [4, 1, 1, 1]"),
    "sub": (lambda: ops.sub(t(4), t(4, 2)), "[4, 1, 1, 1] and [4, 2, 1, 1]"),
    "softcap": (lambda: ops.softcap(t(4), 0), "the cap 0 must be above 0"),
    "gelu": (lambda: ops.gelu(t(6), t(3)), "[6, 1, 1, 1] and [3, 1, 1, 1]"),
    "mulmat": (lambda: ops.mulmat(t(8, 7), t(9, 3)), "[8, 7, 1, 1] and [9, 3, 1, 1]"),
    "mulmat batches": (lambda: ops.mulmat(t(8, 7, 3), t(8, 3, 4)), "[8, 7, 3, 1] and [8, 3, 4, 1]"),
    "mulmat transposed": (lambda: ops.mulmat(t(7, 8).permute(1, 0), t(8)), "is transposed"),
    "rms_norm": (lambda: ops.rms_norm(t(8, 3), t(3), 1e-5), "[8, 3, 1, 1] and [3, 1, 1, 1]"),
    "rope tokens": (lambda: ops.rope(t(8, 2, 3), t(8, 4), True), "[8, 2, 3, 1] and [8, 4, 1, 1]"),
    "rope odd": (lambda: ops.rope(t(8, 2, 3), t(3, 3), True), "[8, 2, 3, 1] and [3, 3, 1, 1]"),
    "rope wide": (lambda: ops.rope(t(4, 2, 3), t(6, 3), True), "[4, 2, 3, 1] and [6, 3, 1, 1]"),
    "rows ids": (lambda: ops.rows(t(8, 9), t(5)), "[8, 9, 1, 1] and [5, 1, 1, 1]"),
    "rows 3-D": (lambda: ops.rows(t(8, 9, 2), i(5)), "[8, 9, 2, 1] and [5, 1, 1, 1]"),
    "set_rows count": (
        lambda: ops.set_rows(t(8, 9), t(8, 5), i(4)),
        "[8, 5, 1, 1] and [4, 1, 1, 1]",
    ),
    "set_rows length": (
        lambda: ops.set_rows(t(8, 9), t(7, 5), i(5)),
        "[8, 9, 1, 1] and [7, 5, 1, 1]",
    ),
    "attention heads": (
        lambda: ops.attention(t(8, 5, 3), t(8, 2, 9), t(5, 2, 9), *see(3, 9), scale=1),
        "[8, 5, 3, 1] and [8, 2, 9, 1] and [5, 2, 9, 1]",
    ),
    "attention cells": (
        lambda: ops.attention(t(8, 6, 3), t(8, 2, 9), t(5, 2, 8), *see(3, 9), scale=1),
        "[8, 6, 3, 1] and [8, 2, 9, 1] and [5, 2, 8, 1]",
    ),
    "attention spans": (
        lambda: ops.attention(t(8, 6, 3), t(8, 2, 9), t(5, 2, 9), *see(4, 9), scale=1),
        "spans must be i32 [4, 3]: [4, 4, 1, 1]",
    ),
    "softmax cells": (
        lambda: ops.softmax(t(9, 3, 6), *see(3, 8)[:2]),
        "cells must be i32 [2, 9]: [2, 8, 1, 1]",
    ),
    "softmax half masked": (lambda: ops.softmax(t(9, 3, 6), i(4, 3)), "come together"),
    "softmax sinks": (lambda: ops.softmax(t(9, 3, 6), sinks=t(5)), "[5, 1, 1, 1] and [9, 3, 6, 1]"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_errors_name_the_operation_and_the_shapes(name: str) -> None:
    make, shown = REFUSED[name]
    with pytest.raises(ShapeError, match=f"^{name.split()[0]}: .*{re.escape(shown)}"):
        make()


def test_contiguous_leaves_packed_tensors_alone() -> None:
    x = t(8, 3)
    assert ops.contiguous(x) is x
    assert ops.contiguous(x.permute(1, 0)).op is Op.COPY


def test_sources_keep_their_places() -> None:
    """A missing optional source is None, not left out."""
    x, w = t(8, 3), t(8)
    assert ops.rms_norm(x, w, 1e-5).src == (x, w)
    assert ops.rms_norm(x, None, 1e-5).src == (x, None)
    sinks = t(6)
    assert ops.softmax(t(9, 3, 6), sinks=sinks).src[1:] == (None, None, sinks, None)
