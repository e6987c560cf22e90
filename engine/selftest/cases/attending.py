"""Cases: softmax, rope and attention over a cache."""

from collections.abc import Iterator, Sequence

import numpy as np

from engine.gguf.formats import BF16, F16, F32, I32, Q4_0, Q8_0, Format
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
from engine.selftest.operands import Operands, paged, turned, visible

ROWS = (
    (16, 2, 3),
    (15, 2, 3),
    (1024, 5, 4),
    (1023, 5, 4),
    (4, 1023, 1),
    (200001, 2, 3),
    (643251, 3, 1),
)
KV_TYPES = (F16, F32, Q8_0, Q4_0)
HEAD_SIZES = (40, 64, 72, 80, 96, 128, 192, 256, 320, 512)
TOWERS = (64, 72, 80, 88, 96, 128)
GROUPS = (1, 4, 8, 12, 16, 20, 32)
# Heads and how many of their elements rotate.
ROTATED = ((128, 128), (80, 32), (80, 20), (64, 64), (36, 20), (256, 256), (512, 512))


def attending() -> Iterator[Case]:
    """Cases of attention's operations, single and fused."""
    for shape in ROWS:
        yield from _softmax(shape)
    for cells, tokens in ((256, 5), (1024, 33), (4096, 3)):
        for softcap in (0.0, 10.0):
            yield _seen(cells, tokens, softcap)
        yield _seen(cells, tokens, 0.0, alibi=8.0)
    for neox in (False, True):
        for head, n_rot in ROTATED:
            for fmt in (F32, F16, BF16):
                for tokens in (1, 7, 512) if head == 128 else (7,):
                    yield _rope(fmt, (head, 5, tokens), n_rot, neox)
        yield _rope(F32, (64, 2, 8192), 64, neox)
        yield _rope(F32, (64, 2, 19), 64, neox, within=True)
    for dim in HEAD_SIZES:
        for kv in KV_TYPES:
            if dim % kv.block == 0:
                for heads, n_kv, tokens in ((1, 113, 1), (4, 512, 3), (8, 300, 1), (1, 1000, 32)):
                    quick = (dim, tokens) in ((64, 1), (64, 3), (128, 3))
                    yield _attention(kv, (dim, 4, heads), n_kv, tokens, quick=quick)
    for kv in KV_TYPES:
        yield from _more_attention(kv)
    for group in (1, 3, 4):
        for prompt in (1, 60):
            yield _sequences((64, 2, group), 5, prompt, quick=group == 3)
    for dim in TOWERS:
        for patches in (70, 729):
            for windows in (1, 9):
                yield _tower(dim, patches, windows, quick=(dim, patches) == (72, 70))
    for tokens in (1, 512):
        yield _attention(F16, (64, 3, 3), 4096, tokens, speed=True)
    yield _tower(72, 1024, 1, speed=True)


def _more_attention(kv: Format) -> Iterator[Case]:
    """Heads to a key's, lengths, windows, softcap, sinks, ALiBi, and values of another size."""
    for group in GROUPS:
        for tokens in (1, 3, 32):
            yield _attention(kv, (64, 4, group), 500, tokens)
    for n_kv in (113, 512, 1024):
        for tokens in (1, 3, 32, 75):
            yield _attention(kv, (128, 2, 2), n_kv, tokens)
    for tokens in (1, 8, 70):
        yield _attention(kv, (64, 2, 3), 1000, tokens, window=100, quick=tokens == 8)
    for softcap in (0.0, 10.0):
        for sinks in (False, True):
            if softcap or sinks:
                yield _attention(kv, (64, 3, 3), 300, 5, softcap, sinks, quick=kv == F16)
    for heads, tokens in (((64, 3, 3), 1), ((128, 2, 1), 5), ((64, 2, 3), 75)):
        yield _attention(kv, heads, 300, tokens, alibi=8.0, quick=kv == F16)
    for dim, values in ((192, 128), (576, 512)):
        for tokens in (1, 5):
            yield _attention(kv, (dim, 1, 4), 300, tokens, values=values)


def _softmax(shape: Sequence[int]) -> Iterator[Case]:
    n, t, h = shape
    for masked in (None, F32, F16):
        for sinks in (False, True):
            if n > 100000 and (masked or sinks):
                continue
            for scale, planes in ((0.1, 1), (1.0, h)):

                def build(
                    o: Operands,
                    mask_type: Format | None = masked,
                    sunk: bool = sinks,
                    scale: float = scale,
                    planes: int = planes,
                ) -> Tensor:
                    hidden = np.where(o.rng.random((planes, t, n)) < 0.3, -np.inf, 0.0)
                    mask = o.put(mask_type, hidden) if mask_type else None
                    sink = o.make(F32, h) if sunk else None
                    return ops.softmax(o.make(F32, n, t, h), mask=mask, scale=scale, sinks=sink)

                mask = f" mask {masked} of {planes}" if masked else ""
                label = f"{dims(*shape)}{mask}{' sinks' * sinks} by {scale}"
                yield Case("softmax", label, build, SOFTMAX_MOST, n in (15, 1023) and scale < 1)


def _seen(cells: int, tokens: int, softcap: float, alibi: float = 0.0) -> Case:
    """Masked by who sees what, as attention without flash does."""

    def build(o: Operands) -> Tensor:
        spans, places, _ = visible(o, tokens, cells, cells - 50, window=90)
        scores = o.make(F32, cells, tokens, 3)
        return ops.softmax(scores, spans, places, scale=0.3, softcap=softcap, alibi=alibi)

    label = f"{dims(cells, tokens, 3)} seen{' softcap' * bool(softcap)}{' alibi' * bool(alibi)}"
    return Case("softmax", label, build, SOFTMAX_MOST, cells == 1024)


def _rope(
    fmt: Format, shape: tuple[int, int, int], n_rot: int, neox: bool, within: bool = False
) -> Case:
    """`within` something larger, as q and k are within the result of one product."""

    def build(o: Operands) -> Tensor:
        head, heads, tokens = shape
        x = o.view(fmt, head * heads, tokens) if within else o.make(fmt, *shape)
        parts = x.view(0, shape, (fmt.row_bytes(head), x.strides[1])) if within else x
        return ops.rope(parts, turned(o, n_rot, tokens), neox)

    label = f"{'neox ' * neox}{'within ' * within}{fmt} {dims(*shape)} of {n_rot}"
    return Case("rope", label, build, most_of(fmt), shape in ((80, 5, 7), (64, 5, 7)))


def _attention(
    kv: Format,
    heads: tuple[int, int, int],
    n_kv: int,
    tokens: int,
    softcap: float = 0.0,
    sinks: bool = False,
    quick: bool = False,
    speed: bool = False,
    window: int = 0,
    values: int = 0,
    alibi: float = 0.0,
) -> Case:
    """`heads`: their size, how many for keys, queries to each of those. `values`: their size."""
    dim, kv_heads, group = heads
    cells = -(-n_kv // 256) * 256

    def build(o: Operands) -> Tensor:
        def cached(size: int) -> Tensor:
            whole = o.make(kv, size * kv_heads, cells, role=Role.CACHE)
            return whole.view(0, (size, kv_heads, cells), (kv.row_bytes(size), whole.strides[1]))

        return ops.attention(
            o.make(F32, dim, kv_heads * group, tokens),
            cached(dim),
            cached(values or dim),
            *visible(o, tokens, cells, n_kv, window),
            scale=dim**-0.5,
            softcap=softcap,
            sinks=o.make(F32, kv_heads * group) if sinks else None,
            alibi=alibi,
        )

    most = QUANTIZED_KV_MOST if kv.quantized else ATTENTION_MOST
    label = f"{kv} {dims(dim, kv_heads * group, tokens)} over {n_kv} of {kv_heads}"
    extras = f"{' softcap' * bool(softcap)}{' sinks' * sinks}{' window' * bool(window)}"
    extras += " alibi" * bool(alibi)
    extras += f" values {values}" if values else ""
    return Case("attention", label + extras, build, most, quick, speed=speed)


def _sequences(heads: tuple[int, int, int], count: int, prompt: int, quick: bool) -> Case:
    """A token each of several sequences, the last of which brings `prompt` of them."""

    def build(o: Operands) -> Tensor:
        dim, kv_heads, group = heads
        spans, cells, n_kv = paged(o, [1] * (count - 1) + [prompt], 200)
        held = cells.shape[1]
        whole = [o.make(F16, dim * kv_heads, held, role=Role.CACHE) for _ in range(2)]
        k, v = (x.view(0, (dim, kv_heads, held), (F16.row_bytes(dim), x.strides[1])) for x in whole)
        q = o.make(F32, dim, kv_heads * group, spans.shape[1])
        return ops.attention(q, k, v, spans, cells, n_kv, scale=dim**-0.5)

    label = f"{dims(heads[0], heads[1] * heads[2])} of {count} sequences, {prompt} of one"
    return Case("attention", label, build, ATTENTION_MOST, quick)


def _tower(dim: int, patches: int, windows: int, quick: bool = False, speed: bool = False) -> Case:
    """Patches of a picture that see their window; the last ones are padding and see nothing."""

    def build(o: Operands) -> Tensor:
        q, k, v = (o.make(F32, dim, 2, patches) for _ in range(3))
        real = np.arange(patches) < patches - 5
        window = np.arange(patches) % windows
        spans = np.stack([real, window, window, 0 * window], axis=1)
        cells = np.stack([real, window], axis=1)
        seen = (o.put(I32, spans), o.put(I32, cells), o.put(I32, np.array([patches])))
        return ops.attention(q, k, v, *seen, scale=dim**-0.5)

    label = f"{dims(dim, 2, patches)} patches in {windows} windows"
    return Case("attention", label, build, ATTENTION_MOST, quick, speed=speed)
