"""Cases: softmax, rope and attention over a cache."""

from collections.abc import Iterator, Sequence

import numpy as np

from engine.gguf.formats import BF16, F16, F32, Q4_0, Q8_0, Format
from engine.graph import ops
from engine.graph.tensor import Role, Tensor
from engine.selftest.case import (
    ATTENTION_MOST,
    QUANTIZED_KV_MOST,
    SOFTMAX_MOST,
    Case,
    dims,
    most_of,
)
from engine.selftest.operands import Operands, visible

ROWS = ((16, 2, 3), (15, 2, 3), (1024, 5, 4), (1023, 5, 4), (200001, 2, 3), (4, 1023, 1))
KV_TYPES = (F16, F32, Q8_0, Q4_0)
HEAD_SIZES = (40, 64, 72, 80, 96, 128, 192, 256, 512)


def attending() -> Iterator[Case]:
    """What attention is made of, single and fused."""
    for shape in ROWS:
        yield from _softmax(shape)
    for neox in (False, True):
        for head, n_rot in ((128, 128), (80, 32), (64, 64), (36, 20), (256, 256)):
            for fmt in (F32, F16, BF16):
                yield _rope(fmt, head, n_rot, neox)
    for dim in HEAD_SIZES:
        for kv in KV_TYPES:
            if dim % kv.block == 0:
                for heads, n_kv, tokens in ((1, 113, 1), (4, 512, 3), (8, 300, 1), (1, 1000, 32)):
                    quick = (dim, tokens) in ((64, 1), (64, 3), (128, 3))
                    yield _attention(kv, (dim, 4, heads), n_kv, tokens, quick=quick)
    for kv in KV_TYPES:
        for softcap in (0.0, 10.0):
            for sinks in (False, True):
                if softcap or sinks:
                    yield _attention(kv, (64, 3, 3), 300, 5, softcap, sinks, kv == F16)
    for tokens in (1, 512):
        yield _attention(F16, (64, 3, 3), 4096, tokens, speed=True)


def _softmax(shape: Sequence[int]) -> Iterator[Case]:
    n, t, h = shape
    for masked in (None, F32, F16):
        for sinks in (False, True):
            if n > 100000 and (masked or sinks):
                continue

            def build(o: Operands, mask_type: Format | None = masked, sunk: bool = sinks) -> Tensor:
                hidden = np.where(o.rng.random((1, t, n)) < 0.3, -np.inf, 0.0)
                mask = o.put(mask_type, hidden) if mask_type else None
                sink = o.make(F32, h) if sunk else None
                return ops.softmax(o.make(F32, n, t, h), mask=mask, scale=0.1, sinks=sink)

            label = f"{dims(*shape)}{f' mask {masked}' if masked else ''}{' sinks' * sinks}"
            yield Case("softmax", label, build, SOFTMAX_MOST, n in (15, 1023))


def _rope(fmt: Format, head: int, n_rot: int, neox: bool) -> Case:
    def build(o: Operands) -> Tensor:
        angles = o.rng.uniform(-3, 3, (7, n_rot // 2))
        table = o.put(F32, np.hstack([np.cos(angles), np.sin(angles)]))
        return ops.rope(o.make(fmt, head, 5, 7), table, neox)

    label = f"{'neox ' * neox}{fmt} {dims(head, 5, 7)} of {n_rot}"
    return Case("rope", label, build, most_of(fmt), head in (80, 64))


def _attention(
    kv: Format,
    heads: tuple[int, int, int],
    n_kv: int,
    tokens: int,
    softcap: float = 0.0,
    sinks: bool = False,
    quick: bool = False,
    speed: bool = False,
) -> Case:
    """`heads`: their size, how many for keys, queries to each of those."""
    dim, kv_heads, group = heads
    cells = -(-n_kv // 256) * 256

    def build(o: Operands) -> Tensor:
        def cached() -> Tensor:
            whole = o.make(kv, dim * kv_heads, cells, role=Role.CACHE)
            return whole.view(0, (dim, kv_heads, cells), (kv.row_bytes(dim), whole.strides[1]))

        return ops.attention(
            o.make(F32, dim, kv_heads * group, tokens),
            cached(),
            cached(),
            *visible(o, tokens, cells, n_kv),
            scale=dim**-0.5,
            softcap=softcap,
            sinks=o.make(F32, kv_heads * group) if sinks else None,
        )

    most = QUANTIZED_KV_MOST if kv.quantized else ATTENTION_MOST
    label = f"{kv} {dims(dim, kv_heads * group, tokens)} over {n_kv} of {kv_heads}"
    extras = f"{' softcap' * bool(softcap)}{' sinks' * sinks}"
    return Case("attention", label + extras, build, most, quick, speed=speed)
