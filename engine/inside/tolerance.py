"""How far a device's operation may be from the host's, as NMSE: what rounding makes of it."""

from engine.graph.op import Op
from engine.graph.ops.attention import FusedAttention
from engine.graph.tensor import Tensor
from engine.selftest.case import (
    ATTENTION_MOST,
    F32_MOST,
    MATMUL_MOST,
    QUANTIZED_KV_MOST,
    SOFTMAX_MOST,
)
from engine.selftest.case import most_of as most_of_type

PRODUCT_MOST = 3 * MATMUL_MOST
"""Of a single token, where one channel may be a hundred times as large as the others."""

QUANTIZED_CACHE_MOST = 1e-4
"""Rows in blocks: where an element is nearly between two levels, rounding takes either."""


def most_of(node: Tensor) -> float:
    """The tolerance of one node of a graph."""
    match node.op:
        case Op.MATMUL | Op.MATMUL_ID:
            return PRODUCT_MOST
        case Op.ATTENTION:
            quantized = FusedAttention.of(node).k.fmt.quantized
            return QUANTIZED_KV_MOST if quantized else ATTENTION_MOST
        case Op.SOFTMAX:
            return SOFTMAX_MOST
        case Op.SET_ROWS | Op.COPY | Op.COPY_INTO if node.fmt.quantized:
            return QUANTIZED_CACHE_MOST
        case _:
            return max(F32_MOST, most_of_type(node.fmt))
