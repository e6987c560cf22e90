"""Cases: chains that a backend may run as one; the host runs them node by node."""

from collections.abc import Callable, Iterator
from itertools import accumulate

import numpy as np

from engine.gguf.formats import F16, F32, I32, Q4_1, Q4_K, Q8_0, Format
from engine.graph import ops
from engine.graph.tensor import Role, Tensor
from engine.selftest.case import ATTENTION_MOST, MATMUL_MOST, QUANTIZED_KV_MOST, Case, bound, dims
from engine.selftest.operands import Operands, turned, visible

ROWS = (1, 8, 70)

Activation = Callable[..., Tensor]


def fused() -> Iterator[Case]:
    """Norms, sums and activations before and after products; all between products and attention."""
    for n in (2, 3, 16):
        yield Case("add", f"chain of {n} [10,5,4,3]", bound(_sum, n=n), quick=n == 3)
    for rows in ROWS:
        quick = rows == 8
        label = f"norm, add {dims(640, rows)}"
        yield Case("norm_chain", label, bound(_norm_add, rows=rows), quick=quick)
        for fmt in (Q4_1, Q4_K):
            for op, make in PRODUCTS.items():
                name, _, what = op.partition(":")
                label = f"{what.strip()} {fmt} {dims(512, rows)}"
                build = bound(make, fmt=fmt, rows=rows)
                short = fmt == Q4_1 and rows == (1 if name in OF_ONE_ROW else 8)
                yield Case(name, label, build, MATMUL_MOST, short, True)
    for cache in (F16, F32, Q8_0):
        for tokens in ROWS:
            for neox, normed in ((True, False), (False, True)):
                most = QUANTIZED_KV_MOST if cache.quantized else ATTENTION_MOST
                build = bound(_stored, cache=cache, tokens=tokens, neox=neox, normed=normed)
                label = f"{cache} {dims(64, 6, tokens)}{' neox' * neox}{' normed' * normed}"
                quick = tokens == 8 and cache is not F32
                yield Case("rope_store", label, build, most, quick)
            build = bound(_stored_alone, cache=cache, tokens=tokens)
            label = f"{cache} {dims(64, 6, tokens)} without rope"
            yield Case("rope_store", label, build, most, tokens == 8 and cache is F16)


def _sum(o: Operands, n: int) -> Tensor:
    *_, total = accumulate((o.make(F32, 10, 5, 4, 3) for _ in range(n)), ops.add)
    return total


def _norm_add(o: Operands, rows: int) -> Tensor:
    return ops.add(
        ops.rms_norm(o.make(F32, 640, rows), o.make(F32, 640), 1e-6), o.make(F32, 640, rows)
    )


def _weight(o: Operands, fmt: Format, m: int = 40) -> Tensor:
    return o.make(fmt, 512, m, role=Role.WEIGHT)


def _norm_product(o: Operands, fmt: Format, rows: int) -> Tensor:
    normed = ops.rms_norm(o.make(F32, 512, rows), o.make(F32, 512), 1e-5)
    return ops.matmul(_weight(o, fmt), normed)


def _norm_add_norm_product(o: Operands, fmt: Format, rows: int) -> Tensor:
    normed = ops.rms_norm(o.make(F32, 512, rows), o.make(F32, 512), 1e-5)
    total = ops.add(o.make(F32, 512, rows), normed)
    return ops.matmul(_weight(o, fmt), ops.rms_norm(total, o.make(F32, 512), 1e-3))


def _layer_norm_product(o: Operands, fmt: Format, rows: int) -> Tensor:
    normed = ops.layer_norm(o.make(F32, 512, rows), o.make(F32, 512), o.make(F32, 512), 1e-5)
    return ops.matmul(_weight(o, fmt), normed)


def _norm_of_two(o: Operands, fmt: Format, rows: int) -> Tensor:
    """A norm that a product and a sum read, as encoders have it behind their layers."""
    normed = ops.layer_norm(o.make(F32, 512, rows), o.make(F32, 512), o.make(F32, 512), 1e-5)
    return ops.add(ops.matmul(_weight(o, fmt, 512), normed), normed)


def _norm_add_product(o: Operands, fmt: Format, rows: int) -> Tensor:
    """A norm behind a layer: the next product takes the sum as it is."""
    normed = ops.rms_norm(o.make(F32, 512, rows), o.make(F32, 512), 1e-5)
    total = ops.add(o.make(F32, 512, rows), normed)
    return ops.add(ops.matmul(_weight(o, fmt, 512), total), total)


def _gated_product(o: Operands, fmt: Format, rows: int) -> Tensor:
    gated = ops.silu(o.make(F32, 512, rows), o.make(F32, 512, rows))
    return ops.matmul(_weight(o, fmt), gated)


def _activation_product(o: Operands, act: Activation, fmt: Format, rows: int) -> Tensor:
    return ops.matmul(_weight(o, fmt), act(o.make(F32, 512, rows)))


def _product_add(o: Operands, fmt: Format, rows: int) -> Tensor:
    product = ops.matmul(_weight(o, fmt, 193), o.make(F32, 512, rows))
    return ops.add(product, o.make(F32, 193, rows))


def _product_bias(o: Operands, fmt: Format, rows: int) -> Tensor:
    product = ops.matmul(_weight(o, fmt, 193), o.make(F32, 512, rows))
    return ops.add(product, o.make(F32, 193))


def _products_and_biases(o: Operands, fmt: Format, rows: int) -> Tensor:
    """Three products of one launch, each with its own."""
    x = o.make(F32, 512, rows)
    products = [ops.matmul(_weight(o, fmt, 193), x) for _ in range(3)]
    sums = [ops.add(product, o.make(F32, 193, role=Role.WEIGHT)) for product in products]
    return ops.mul(sums[0], ops.mul(sums[1], sums[2]))


def _product_bias_add(o: Operands, fmt: Format, rows: int) -> Tensor:
    product = ops.matmul(_weight(o, fmt, 193), o.make(F32, 512, rows))
    biased = ops.add(product, o.make(F32, 193, role=Role.WEIGHT))
    return ops.add(biased, o.make(F32, 193, rows))


def _gate_and_up(o: Operands, act: Activation, fmt: Format, rows: int) -> Tensor:
    x = o.make(F32, 512, rows)
    gate, up = (ops.matmul(_weight(o, fmt, 512), x) for _ in range(2))
    return ops.matmul(_weight(o, fmt), act(gate, up))


def _norm_gate_and_up(o: Operands, fmt: Format, rows: int) -> Tensor:
    normed = ops.rms_norm(o.make(F32, 512, rows), o.make(F32, 512), 1e-5)
    gate, up = (ops.matmul(_weight(o, fmt, 512), normed) for _ in range(2))
    return ops.matmul(_weight(o, fmt), ops.silu(gate, up))


def _feed_chain(o: Operands, fmt: Format, rows: int) -> Tensor:
    """All that stands behind attention in a layer."""
    mixed = ops.matmul(_weight(o, fmt, 512), o.make(F32, 512, rows))
    h = ops.add(mixed, o.make(F32, 512, rows))
    normed = ops.rms_norm(h, o.make(F32, 512), 1e-5)
    gate, up = (ops.matmul(_weight(o, fmt, 512), normed) for _ in range(2))
    return ops.add(ops.matmul(_weight(o, fmt, 512), ops.silu(gate, up)), h)


def _attention_product(o: Operands, fmt: Format, rows: int) -> Tensor:
    q, k, v = (o.make(t, 64, heads, n) for t, heads, n in ((F32, 8, rows), *[(F16, 2, 256)] * 2))
    mixed = ops.attention(q, k, v, *visible(o, rows, 256, 200), scale=0.125)
    return ops.matmul(_weight(o, fmt), mixed.reshape(512, rows))


PRODUCTS: dict[str, Callable[..., Tensor]] = {
    "norm_chain: norm, product": _norm_product,
    "norm_chain: norm, add, norm, product": _norm_add_norm_product,
    "norm_chain: layer norm, product": _layer_norm_product,
    "norm_chain: layer norm, product and sum": _norm_of_two,
    "norm_chain: norm, add, product": _norm_add_product,
    "activation_quantize: silu, product": _gated_product,
    "activation_quantize: gelu, product": bound(_activation_product, act=ops.gelu),
    "activation_quantize: gelu_erf, product": bound(_activation_product, act=ops.gelu_erf),
    "activation_quantize: quick_gelu, product": bound(_activation_product, act=ops.quick_gelu),
    "matmul_add: product, add": _product_add,
    "matmul_add: product, bias": _product_bias,
    "matmul_add: product, bias, add": _product_bias_add,
    "matmul_tiled: three products, biases": _products_and_biases,
    "matmul_gated: two products, gelu, product": bound(_gate_and_up, act=ops.gelu),
    "matmul_gated: two products, gelu_erf, product": bound(_gate_and_up, act=ops.gelu_erf),
    "norm_matmul: norm, add, norm, product": _norm_add_norm_product,
    "norm_gated: norm, two products, silu, product": _norm_gate_and_up,
    "feed_chain: product, add, norm, feed-forward, add": _feed_chain,
    "attention: then product": _attention_product,
}
OF_ONE_ROW = {"norm_matmul", "norm_gated", "feed_chain"}


def _stored_alone(o: Operands, cache: Format, tokens: int) -> Tensor:
    """Keys and values of a layer that turns nothing."""
    ids = o.put(I32, np.arange(200 - tokens, 200))

    def kept() -> Tensor:
        whole = ops.set_rows(o.make(cache, 128, 256), o.make(F32, 128, tokens), ids)
        return whole.view(0, (64, 2, 256), (cache.row_bytes(64), whole.strides[1]))

    q, k, v = o.make(F32, 64, 6, tokens), kept(), kept()
    return ops.attention(q, k, v, *visible(o, tokens, 256, 200), scale=0.125)


def _stored(o: Operands, cache: Format, tokens: int, neox: bool, normed: bool) -> Tensor:
    """Six heads of queries over two of a cache that this step writes to."""
    table = turned(o, 64, tokens)
    ids = o.put(I32, np.arange(200 - tokens, 200))

    def roped(heads: int) -> Tensor:
        x = o.make(F32, 64, heads, tokens)
        return ops.rope(ops.rms_norm(x, o.make(F32, 64), 1e-6) if normed else x, table, neox)

    def kept(values: Tensor) -> Tensor:
        whole = ops.set_rows(o.make(cache, 128, 256), values.reshape(128, tokens), ids)
        return whole.view(0, (64, 2, 256), (cache.row_bytes(64), whole.strides[1]))

    q, k = roped(6), kept(roped(2))
    v = kept(o.make(F32, 64, 2, tokens))
    return ops.attention(q, k, v, *visible(o, tokens, 256, 200), scale=0.125)
