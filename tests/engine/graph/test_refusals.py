"""What no node can be made of: every error names the operation and shows the shapes."""

import re

import pytest

from engine.errors import NotSupported, ShapeError
from engine.gguf.formats import F16, F32, I32, I64, Q4_0, Q4_K, Q8_0
from engine.graph import ops
from engine.graph.ops.experts import Scoring
from engine.graph.tensor import Role, Tensor, leaf


def t(*shape: int, fmt=F32) -> Tensor:
    return leaf("t", fmt, shape, Role.INPUT)


def i(*shape: int) -> Tensor:
    return t(*shape, fmt=I32)


def see(n: int, cells: int) -> tuple[Tensor, Tensor, Tensor]:
    return i(4, n), i(2, cells), i(1)


def attend(q: Tensor, k: Tensor, v: Tensor, tokens: int = 3, cells: int = 9, **more) -> Tensor:
    return ops.attention(q, k, v, *see(tokens, cells), scale=1, **more)


def delta(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    gates = t(4, 5), t(4, 5)
    return ops.delta_net(q, k, v, *gates, t(256, 2), i(2), eps=1e-6, tiled=True)


def wkv(q: Tensor, k: Tensor, v: Tensor, bonus: Tensor | None = None) -> Tensor:
    return ops.wkv(q, k, v, k, t(256, 2), i(2), bonus=bonus)


def scan(x: Tensor, b: Tensor) -> Tensor:
    return ops.ssm_scan(x, t(4, 5), b, b, t(1, 4), None, t(512, 2), i(2))


def edit(
    x: Tensor, count: Tensor, vectors: Tensor | None = None, columns: int = 8, **more
) -> Tensor:
    first = i(*count.dims) if count.fmt is F32 else count
    return ops.edit(x, first, count, i(columns, 5), t(8, 5), vectors, **more)


def route(logits: Tensor, used: int = 2, **more) -> Tensor:
    return ops.route(logits, used, Scoring.SIGMOID, **more)


def weigh(logits: Tensor, ids: Tensor, **more) -> Tensor:
    return ops.route_weights(logits, ids, Scoring.SIGMOID, **more)


REFUSED = {
    "add": (lambda: ops.add(t(6, 4), t(4)), "[6, 4, 1, 1] and [4, 1, 1, 1]"),
    "add of integers": (lambda: ops.add(i(4), i(4)), "not I32, I32: [4, 1, 1, 1]"),
    "sub": (lambda: ops.sub(t(4), t(4, 2)), "[4, 1, 1, 1] and [4, 2, 1, 1]"),
    "mul of blocks": (lambda: ops.mul(t(32), t(32, fmt=Q8_0)), "[32, 1, 1, 1] and [32, 1, 1, 1]"),
    "div": (lambda: ops.div(t(6, 5), t(6, 2)), "[6, 5, 1, 1] and [6, 2, 1, 1]"),
    "scale of blocks": (lambda: ops.scale(t(32, fmt=Q8_0), 2), "not Q8_0: [32, 1, 1, 1]"),
    "softcap": (lambda: ops.softcap(t(4), 0), "the cap 0 must be above 0"),
    "clamp": (lambda: ops.clamp(t(4), 2, 1), "lower bound 2 is above the upper 1: [4, 1, 1, 1]"),
    "sqrt of integers": (lambda: ops.sqrt(i(4)), "not I32: [4, 1, 1, 1]"),
    "add_id types": (lambda: ops.add_id(t(6, 2, 3, fmt=F16), t(6, 4), i(2, 3)), "[6, 4, 1, 1]"),
    "add_id ids": (
        lambda: ops.add_id(t(6, 2, 3), t(6, 4), i(3, 2)),
        "[6, 2, 3, 1] and [6, 4, 1, 1] and [3, 2, 1, 1]",
    ),
    "add_id rows": (lambda: ops.add_id(t(6, 2, 3), t(5, 4), i(2, 3)), "[5, 4, 1, 1]"),
    "add_id flat": (lambda: ops.add_id(t(6, 2, 3, 2), t(6, 4), i(2, 3)), "[6, 2, 3, 2]"),
    "gelu": (lambda: ops.gelu(t(6), t(3)), "[6, 1, 1, 1] and [3, 1, 1, 1]"),
    "silu broadcast": (lambda: ops.silu(t(6, 4), t(6)), "[6, 4, 1, 1] and [6, 1, 1, 1]"),
    "relu of integers": (lambda: ops.relu(i(6)), "not I32"),
    "xielu of integers": (lambda: ops.xielu(i(6), 1, 1, 1), "not I32"),
    "swiglu_limit": (lambda: ops.swiglu_limit(t(6), t(3), 1, 7), "[6, 1, 1, 1] and [3, 1, 1, 1]"),
    "matmul": (lambda: ops.matmul(t(8, 7), t(9, 3)), "[8, 7, 1, 1] and [9, 3, 1, 1]"),
    "matmul batches": (lambda: ops.matmul(t(8, 7, 3), t(8, 3, 4)), "[8, 7, 3, 1] and [8, 3, 4, 1]"),
    "matmul last": (
        lambda: ops.matmul(t(8, 7, 1, 2), t(8, 3, 1, 3)),
        "[8, 7, 1, 2] and [8, 3, 1, 3]",
    ),
    "matmul transposed": (
        lambda: ops.matmul(t(7, 8).permute(1, 0), t(8)),
        "is transposed; make it contiguous: [8, 7, 1, 1] and [8, 1, 1, 1]",
    ),
    "matmul by blocks": (lambda: ops.matmul(t(32, 2), t(32, 2, fmt=Q8_0)), "not Q8_0"),
    "matmul of integers": (lambda: ops.matmul(i(8, 2), t(8, 2)), "type I32: [8, 2, 1, 1]"),
    "matmul_id tokens": (
        lambda: ops.matmul_id(t(8, 7, 4), t(8, 1, 3), i(2, 4)),
        "[8, 1, 3, 1] and [2, 4, 1, 1]",
    ),
    "matmul_id slots": (
        lambda: ops.matmul_id(t(8, 7, 4), t(8, 2, 3), i(3, 3)),
        "[8, 2, 3, 1] and [3, 3, 1, 1]",
    ),
    "matmul_id ids": (lambda: ops.matmul_id(t(8, 7, 4), t(8, 1, 3), t(2, 3)), "[2, 3, 1, 1]"),
    "route types": (lambda: route(t(8, 3, fmt=F16)), "not F16: [8, 3, 1, 1]"),
    "route flat": (lambda: route(t(8, 3, 2)), "[8, 3, 2, 1]"),
    "route bias": (lambda: route(t(8, 3), bias=t(7)), "8 experts: [8, 3, 1, 1] and [7, 1, 1, 1]"),
    "route groups": (lambda: route(t(8, 3), groups=3), "1 of 3 equal groups of 8 experts"),
    "route open groups": (lambda: route(t(8, 3), groups=2, groups_used=3), "3 of 2 equal groups"),
    "route used": (lambda: route(t(8, 3), used=5, groups=2), "cannot take 5 of 4 experts"),
    "route none": (lambda: route(t(8, 3), used=0), "cannot take 0 of 8 experts"),
    "route_weights ids": (lambda: weigh(t(8, 3), i(2, 4)), "[8, 3, 1, 1] and [2, 4, 1, 1]"),
    "route_weights types": (lambda: weigh(t(8, 3), t(2, 3)), "needs i32 ids [U, T]"),
    "route_weights gains": (lambda: weigh(t(8, 3), i(2, 3), gains=t(8, 3)), "[8, 3, 1, 1]"),
    "combine": (lambda: ops.combine(t(8, 2, 3), t(3, 2)), "[8, 2, 3, 1] and [3, 2, 1, 1]"),
    "combine types": (lambda: ops.combine(t(8, 2, 3, fmt=F16), t(2, 3)), "needs f32 y"),
    "matmul_id batches": (
        lambda: ops.matmul_id(t(8, 7, 4, 2), t(8, 1, 3), i(2, 3)),
        "[8, 7, 4, 2] and [8, 1, 3, 1]",
    ),
    "matmul_id rows": (
        lambda: ops.matmul_id(t(8, 7, 4), t(9, 1, 3), i(2, 3)),
        "[8, 7, 4, 1] and [9, 1, 3, 1]",
    ),
    "rms_norm": (lambda: ops.rms_norm(t(8, 3), t(3), 1e-5), "[8, 3, 1, 1] and [3, 1, 1, 1]"),
    "layer_norm weight": (
        lambda: ops.layer_norm(t(8, 3), t(8, 3), None, 1e-5),
        "[8, 3, 1, 1] and [8, 3, 1, 1]",
    ),
    "layer_norm bias": (
        lambda: ops.layer_norm(t(8, 3), t(8), t(3), 1e-5),
        "[8, 3, 1, 1] and [3, 1, 1, 1]",
    ),
    "layer_norm alone": (lambda: ops.layer_norm(t(8), None, t(8), 1e-5), "a bias needs a weight"),
    "l2_norm": (lambda: ops.l2_norm(i(8), 1e-5), "not I32: [8, 1, 1, 1]"),
    "sum_rows": (lambda: ops.sum_rows(t(32, fmt=Q8_0)), "not Q8_0: [32, 1, 1, 1]"),
    "mean": (lambda: ops.mean(i(8)), "not I32: [8, 1, 1, 1]"),
    "argsort": (lambda: ops.argsort(t(8, fmt=F16)), "sorts f32, not F16: [8, 1, 1, 1]"),
    "best of halves": (lambda: ops.best(t(8, fmt=F16), 2), "compares f32, not F16: [8, 1, 1, 1]"),
    "best of few": (lambda: ops.best(t(8, 3), 9), "a row of 8 elements has no 9: [8, 3, 1, 1]"),
    "best of many": (lambda: ops.best(t(1 << 25), 9), "not exact as f32"),
    "top_k many": (lambda: ops.top_k(t(8, 3), 9), "no 9 elements: [8, 3, 1, 1]"),
    "top_k none": (lambda: ops.top_k(t(8, 3), 0), "no 0 elements"),
    "edit rows": (lambda: edit(t(8, 3), i(5)), "x is not 5 rows: [8, 3, 1, 1] and [5, 1, 1, 1]"),
    "edit types": (lambda: edit(t(8, 3, fmt=F16), i(3)), "needs packed f32 x"),
    "edit counts": (lambda: edit(t(8, 3), t(3)), "needs i32 first"),
    "edit views": (lambda: edit(t(8, 3).permute(1, 0), i(8)), "needs packed f32 x"),
    "edit code": (
        lambda: edit(t(8, 3), i(3), columns=7),
        "an instruction has 8 columns: [7, 5, 1, 1]",
    ),
    "edit vectors": (lambda: edit(t(8, 3), i(3), t(7, 2)), "rows have 8 numbers: [7, 2, 1, 1]"),
    "edit entered": (
        lambda: edit(t(8, 3), i(3), entered=t(8, 4)),
        "like x: [8, 3, 1, 1] and [8, 4, 1, 1]",
    ),
    "edit experts": (lambda: edit(t(8, 3), i(3), experts=i(4)), "x is not 3 rows"),
    "rope tokens": (lambda: ops.rope(t(8, 2, 3), t(8, 4), True), "[8, 2, 3, 1] and [8, 4, 1, 1]"),
    "rope odd": (lambda: ops.rope(t(8, 2, 3), t(3, 3), True), "[8, 2, 3, 1] and [3, 3, 1, 1]"),
    "rope wide": (lambda: ops.rope(t(4, 2, 3), t(6, 3), True), "[4, 2, 3, 1] and [6, 3, 1, 1]"),
    "rope deep": (lambda: ops.rope(t(8, 2, 3), t(8, 3, 2), True), "[8, 2, 3, 1] and [8, 3, 2, 1]"),
    "rope of integers": (lambda: ops.rope(i(8, 2, 3), t(8, 3), True), "not I32"),
    "causal_conv": (
        lambda: ops.causal_conv(t(8, 3), t(4, 9), None, t(24, 2), i(2), silu=True),
        "[8, 3, 1, 1] and [4, 9, 1, 1]",
    ),
    "causal_conv bias": (
        lambda: ops.causal_conv(t(8, 3), t(4, 8), t(4), t(24, 2), i(2), silu=True),
        "[4, 1, 1, 1] and [4, 8, 1, 1]",
    ),
    "causal_conv state": (
        lambda: ops.causal_conv(t(8, 3), t(4, 8), None, t(32, 2), i(2), silu=True),
        "the state must be F32 rows of 24: [32, 2, 1, 1]",
    ),
    "causal_conv at": (
        lambda: ops.causal_conv(t(8, 3), t(4, 8), None, t(24, 2), i(3), silu=True),
        "`at` is i32 [2, P]: slots, and ends of parts: [3, 1, 1, 1]",
    ),
    "causal_conv of halves": (
        lambda: ops.causal_conv(t(8, 3, fmt=F16), t(4, 8), None, t(24, 2), i(2), silu=True),
        "computes in F32, not F16, F32",
    ),
    "token_shift": (
        lambda: ops.token_shift(t(8, 3), t(8, 2), t(8, 2), i(2)),
        "needs x [C, T] and mix [C, 1 or T, M]: [8, 3, 1, 1] and [8, 2, 1, 1]",
    ),
    "token_shift state": (
        lambda: ops.token_shift(t(8, 3), t(8, 1, 6), t(16, 2), i(2)),
        "the state must be F32 rows of 8: [16, 2, 1, 1]",
    ),
    "wkv heads": (
        lambda: wkv(t(8, 2, 5), t(8, 2, 5), t(8, 4, 5)),
        "[8, 2, 5, 1] and [8, 2, 5, 1] and [8, 2, 5, 1] and [8, 4, 5, 1]",
    ),
    "wkv bonus": (
        lambda: wkv(t(8, 4, 5), t(8, 4, 5), t(8, 4, 5), bonus=t(8, 2)),
        "a bonus is [8, 4] where nothing is erased: [8, 2, 1, 1]",
    ),
    "wkv state": (
        lambda: wkv(t(8, 8, 5), t(8, 8, 5), t(8, 8, 5)),
        "the state must be F32 rows of 512: [256, 2, 1, 1]",
    ),
    "delta_net heads": (
        lambda: delta(t(8, 3, 5), t(8, 3, 5), t(8, 4, 5)),
        "[8, 3, 5, 1] and [8, 3, 5, 1] and [8, 4, 5, 1]",
    ),
    "delta_net tokens": (
        lambda: delta(t(8, 2, 5), t(8, 2, 5), t(8, 4, 6)),
        "[8, 2, 5, 1] and [8, 2, 5, 1] and [8, 4, 6, 1]",
    ),
    "delta_net gates": (
        lambda: delta(t(8, 2, 6), t(8, 2, 6), t(8, 4, 6)),
        "g and beta are [4, 6]: [4, 5, 1, 1]",
    ),
    "delta_net state": (
        lambda: delta(t(9, 2, 5), t(9, 2, 5), t(8, 4, 5)),
        "the state must be F32 rows of 288: [256, 2, 1, 1]",
    ),
    "ssm_scan groups": (lambda: scan(t(8, 4, 5), t(16, 3, 5)), "[8, 4, 5, 1] and [16, 3, 5, 1]"),
    "ssm_scan steps": (lambda: scan(t(8, 2, 5), t(16, 1, 5)), "delta is [2, 5]"),
    "ssm_scan state": (
        lambda: scan(t(8, 4, 5), t(8, 1, 5)),
        "the state must be F32 rows of 256: [512, 2, 1, 1]",
    ),
    "rows ids": (lambda: ops.rows(t(8, 9), t(5)), "[8, 9, 1, 1] and [5, 1, 1, 1]"),
    "rows 3-D": (lambda: ops.rows(t(8, 9, 2), i(5)), "[8, 9, 2, 1] and [5, 1, 1, 1]"),
    "rows 4-D": (lambda: ops.rows(t(8, 9), i(5, 1, 1, 2)), "[8, 9, 1, 1] and [5, 1, 1, 2]"),
    "set_rows count": (
        lambda: ops.set_rows(t(8, 9), t(8, 5), i(4)),
        "[8, 5, 1, 1] and [4, 1, 1, 1]",
    ),
    "set_rows length": (
        lambda: ops.set_rows(t(8, 9), t(7, 5), i(5)),
        "[8, 9, 1, 1] and [7, 5, 1, 1]",
    ),
    "set_rows batches": (
        lambda: ops.set_rows(t(8, 9, 3), t(8, 5, 3), i(5, 2)),
        "do not tile into values: [8, 5, 3, 1] and [5, 2, 1, 1]",
    ),
    "set_rows of halves": (
        lambda: ops.set_rows(t(8, 9), t(8, 5, fmt=F16), i(5)),
        "[8, 5, 1, 1] and [5, 1, 1, 1]",
    ),
    "attention heads": (
        lambda: attend(t(8, 5, 3), t(8, 2, 9), t(5, 2, 9)),
        "[8, 5, 3, 1] and [8, 2, 9, 1] and [5, 2, 9, 1]",
    ),
    "attention dimensions": (
        lambda: attend(t(8, 6, 3), t(7, 2, 9), t(5, 2, 9)),
        "[8, 6, 3, 1] and [7, 2, 9, 1] and [5, 2, 9, 1]",
    ),
    "attention cells": (
        lambda: attend(t(8, 6, 3), t(8, 2, 9), t(5, 2, 8)),
        "[8, 6, 3, 1] and [8, 2, 9, 1] and [5, 2, 8, 1]",
    ),
    "attention batches": (
        lambda: attend(t(8, 6, 3, 2), t(8, 2, 9, 2), t(5, 2, 9, 2)),
        "has three dimensions: [8, 6, 3, 2]",
    ),
    "attention spans": (
        lambda: attend(t(8, 6, 3), t(8, 2, 9), t(5, 2, 9), tokens=4),
        "spans must be i32 [4, 3]: [4, 4, 1, 1]",
    ),
    "attention of integers": (lambda: attend(t(8, 6, 3), i(8, 2, 9), t(5, 2, 9)), "type I32"),
    "attention sinks": (
        lambda: attend(t(8, 6, 3), t(8, 2, 9), t(5, 2, 9), sinks=t(5)),
        "[5, 1, 1, 1] and [8, 6, 3, 1]",
    ),
    "attention masked": (
        lambda: ops.masked_attention(t(8, 6, 3), t(8, 2, 7), t(5, 3, 7), None, scale=1),
        "[8, 6, 3, 1] and [8, 2, 7, 1] and [5, 3, 7, 1]",
    ),
    "softmax cells": (
        lambda: ops.softmax(t(9, 3, 6), *see(3, 8)[:2]),
        "cells must be i32 [2, 9]: [2, 8, 1, 1]",
    ),
    "softmax half masked": (lambda: ops.softmax(t(9, 3, 6), i(4, 3)), "come together"),
    "softmax twice masked": (
        lambda: ops.softmax(t(9, 3), *see(3, 9)[:2], mask=t(9, 3)),
        "not with a mask: [9, 3, 1, 1]",
    ),
    "softmax sinks": (lambda: ops.softmax(t(9, 3, 6), sinks=t(5)), "[5, 1, 1, 1] and [9, 3, 6, 1]"),
    "softmax mask rows": (
        lambda: ops.softmax(t(9, 3), mask=t(9, 2)),
        "[9, 3, 1, 1] and [9, 2, 1, 1]",
    ),
    "softmax mask row": (
        lambda: ops.softmax(t(9, 3), mask=t(8, 3)),
        "[9, 3, 1, 1] and [8, 3, 1, 1]",
    ),
    "softmax mask heads": (
        lambda: ops.softmax(t(9, 3, 4), mask=t(9, 3, 3)),
        "[9, 3, 4, 1] and [9, 3, 3, 1]",
    ),
    "softmax mask type": (lambda: ops.softmax(t(9, 3), mask=i(9, 3)), "the mask does not fit"),
    "cast": (lambda: ops.cast(t(40, 2), Q8_0), "not a multiple of Q8_0's 32: [40, 2, 1, 1]"),
    "copy_into": (lambda: ops.copy_into(t(8, 3), t(5, 5)), "[8, 3, 1, 1] and [5, 5, 1, 1]"),
    "copy_into blocks": (
        lambda: ops.copy_into(t(64, 3), t(32, 6, fmt=Q8_0)),
        "blocks cannot be cut: [64, 3, 1, 1] and [32, 6, 1, 1]",
    ),
    "set types": (lambda: ops.set_(t(8), t(2, fmt=F16), 0), "[8, 1, 1, 1] and [2, 1, 1, 1]"),
    "set packed": (
        lambda: ops.set_(t(8, 3).permute(1, 0), t(2), 0),
        "[3, 8, 1, 1] and [2, 1, 1, 1]",
    ),
    "view of set, outside": (lambda: ops.set_(t(8), t(3), 24), "[8, 1, 1, 1] and [3, 1, 1, 1]"),
    "view of set, before": (lambda: ops.set_(t(8), t(3), -4), "outside its source at byte -4"),
    "view of set, between": (lambda: ops.set_(t(8), t(3), 2), "cannot be cut at byte 2"),
    "pad away": (lambda: ops.pad(t(8, 3), 0, -3), "by (0, -3) is too much: [8, 3, 1, 1]"),
    "pad blocks": (
        lambda: ops.pad(t(64, fmt=Q8_0), 3),
        "Q8_0 rows cannot be cut: [64, 1, 1, 1] and [67, 1, 1, 1]",
    ),
    "pad five": (lambda: ops.pad(t(8), 0, 0, 0, 0, 1), "by (0, 0, 0, 0, 1) is too much: [8, 1"),
    "concat sizes": (lambda: ops.concat(t(8, 3), t(8, 2), 0), "[8, 3, 1, 1] and [8, 2, 1, 1]"),
    "concat types": (
        lambda: ops.concat(t(8, 3), t(8, 3, fmt=F16), 1),
        "F32 and F16 do not join along dimension 1: [8, 3, 1, 1] and [8, 3, 1, 1]",
    ),
    "concat where": (lambda: ops.concat(t(8), t(8), 4), "invalid dimension 4: [8, 1, 1, 1]"),
    "stack": (lambda: ops.stack(0), "nothing to concatenate"),
    "repeat where": (lambda: ops.repeat(t(8), -1, 2), "invalid dimension -1: [8, 1, 1, 1]"),
    "repeat times": (lambda: ops.repeat(t(8), 0, 0), "0 times is below 1: [8, 1, 1, 1]"),
    "arange empty": (lambda: ops.arange(3, 3), "empty range from 3 to 3"),
    "arange away": (lambda: ops.arange(0, 3, -1), "empty range from 0 to 3 in steps of -1"),
    "arange still": (lambda: ops.arange(0, 3, 0), "in steps of 0"),
    "slice where": (lambda: ops.slice_(t(8), 4, 0, 1), "invalid dimension 4: [8, 1, 1, 1]"),
    "slice low": (lambda: ops.slice_(t(8), 0, -1, 1), "invalid slice parameters: -1 to 1 by 1: [8"),
    "slice high": (lambda: ops.slice_(t(8), 0, 0, 9), "invalid slice parameters: 0 to 9 by 1: [8"),
    "slice empty": (lambda: ops.slice_(t(8), 0, 3, 3), "invalid slice parameters: 3 to 3 by 1"),
    "slice step": (lambda: ops.slice_(t(8), 0, 0, 8, 0), "invalid slice parameters: 0 to 8 by 0"),
    "slice blocks": (lambda: ops.slice_(t(64, fmt=Q8_0), 0, 0, 32), "Q8_0 rows cannot be cut"),
    "chunk where": (lambda: ops.chunk(t(8), 5, 1), "invalid dimension 5: [8, 1, 1, 1]"),
    "chunk size": (lambda: ops.chunk(t(8), 0, 0), "a size of 0 is below 1: [8, 1, 1, 1]"),
    "chunk_sections": (
        lambda: ops.chunk_sections(t(8), 0, [3, 4]),
        "sections [3, 4] do not sum to tensor dimension 0: [8, 1, 1, 1]",
    ),
    "slice of sections": (
        lambda: ops.chunk_sections(t(8), 0, [9, -1]),
        "0 to 9 by 1: [8, 1, 1, 1]",
    ),
    "im2col channels": (
        lambda: ops.im2col(t(3, 3, 4), t(9, 9, 3)),
        "[3, 3, 4, 1] and [9, 9, 3, 1]",
    ),
    "im2col small": (lambda: ops.im2col(t(3, 3), t(2, 9)), "larger than the image: [2, 9, 1, 1]"),
    "im2col wide": (
        lambda: ops.im2col(t(3, 3), t(4, 9), dilation=(2, 1)),
        "larger than the image: [4, 9, 1, 1] and [3, 3, 1]",
    ),
    "im2col steps": (lambda: ops.im2col(t(3, 3), t(9, 9), (0, 1)), "steps (0, 1, 1)"),
    "im2col pads": (lambda: ops.im2col(t(3, 3), t(9, 9), pad=(-1, 0)), "padding (-1, 0, 0)"),
    "im2col type": (lambda: ops.im2col(t(3, 3), t(9, 9, fmt=F16)), "F32, not F16: [9, 9, 1, 1]"),
    "im2col images": (
        lambda: ops.im2col_3d(t(2, 2, 2, 6), t(4, 4, 4, 4), 3),
        "no multiples of 3: [2, 2, 2, 6] and [4, 4, 4, 4]",
    ),
    "im2col none": (lambda: ops.im2col_3d(t(2, 2, 2, 6), t(4, 4, 4, 4), 0), "no multiples of 0"),
    "avg_pool_2d": (lambda: ops.avg_pool_2d(t(2, 9), 3, 1), "larger than the image: [2, 9, 1, 1]"),
    "avg_pool_2d step": (lambda: ops.avg_pool_2d(t(9, 9), 3, 0), "steps (0, 0, 1)"),
    "interpolate type": (
        lambda: ops.interpolate(i(2), (4, 1, 1, 1)),
        "[2, 1, 1, 1] and [4, 1, 1, 1]",
    ),
    "interpolate mode": (
        lambda: ops.interpolate(t(2), (4, 1, 1, 1), "cubic"),
        "not F32, cubic: [2, 1",
    ),
    "interpolate to nothing": (
        lambda: ops.interpolate(t(2), (0, 1, 1, 1)),
        "[2, 1, 1, 1] and [0, 1, 1, 1]",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_errors_name_the_operation_and_the_shapes(name: str) -> None:
    make, shown = REFUSED[name]
    with pytest.raises(ShapeError, match=f"^{name.split()[0]}: .*{re.escape(shown)}"):
        make()


READ_ONLY = {
    "cast": lambda: ops.cast(t(256, 2), Q4_K),
    "copy_into": lambda: ops.copy_into(t(256, 2), t(256, 2, fmt=Q4_K)),
    "set_rows": lambda: ops.set_rows(t(256, 4, fmt=Q4_K), t(256, 2), t(2, fmt=I64)),
}


@pytest.mark.parametrize("name", READ_ONLY)
def test_blocks_that_are_only_read_are_not_written(name: str) -> None:
    with pytest.raises(NotSupported, match=f"{name} of F32 into Q4_K"):
        READ_ONLY[name]()


def test_blocks_are_written_in_the_types_that_can_be() -> None:
    for fmt in (Q4_0, Q8_0):
        assert ops.cast(t(64), fmt).fmt == fmt
    assert ops.copy_into(t(256, fmt=Q4_K), t(256, fmt=Q4_K)).fmt == Q4_K  # the same bytes


def test_every_operation_has_a_refusal() -> None:
    """What cannot be refused: any type and shape will do."""
    free = {"contiguous", "duplicate"}
    alike = {  # as one that is tested, by the same check
        *(
            "cos",
            "sin",
            "exp",
            "softplus",
            "sqr",
            "neg",
            "tanh",
            "sigmoid",
            "gelu_erf",
            "quick_gelu",
        ),
        *("stddev", "variance", "conv_2d", "conv_3d", "im2col_3d", "masked_attention"),
    }
    tested = {name.split()[0] for name in REFUSED}
    names = {name.rstrip("_") for name in ops.__all__}
    assert names - tested == free | alike
