"""Which family makes the launches of an operation: one row an operation, nothing is computed here.

`supports(node, type_of)` says whether the family has kernels for the node's types and layouts;
`make(node, type_of, traits)` gives the launches, in order. Both are pure.
"""

from collections.abc import Callable
from typing import NamedTuple

from engine.backends.base import TypeOf
from engine.backends.opencl.launch import MakeLaunches
from engine.backends.opencl.launches.activation import activation, supports_activation
from engine.backends.opencl.launches.activation_quantize import (
    activation_quantize,
    supports_activation_quantize,
)
from engine.backends.opencl.launches.arithmetic import (
    add_id,
    binary,
    supports_add_id,
    supports_binary,
    supports_unary,
    unary,
)
from engine.backends.opencl.launches.attention import (
    attention,
    softmax,
    supports_attention,
    supports_softmax,
)
from engine.backends.opencl.launches.copy import copy, supports_copy
from engine.backends.opencl.launches.image import (
    avg_pool_2d,
    im2col,
    interpolate,
    supports_image,
)
from engine.backends.opencl.launches.matmul import (
    matmul,
    matmul_add,
    matmul_gated,
    supports_matmul,
    supports_matmul_add,
)
from engine.backends.opencl.launches.matmul_experts import (
    group_ids,
    matmul_id,
    supports_group_ids,
    supports_matmul_id,
)
from engine.backends.opencl.launches.norm import norm, supports_norm
from engine.backends.opencl.launches.norm_chain import norm_chain, supports_norm_chain
from engine.backends.opencl.launches.quantize import quantize, supports_quantize
from engine.backends.opencl.launches.reduce import reduce, supports_reduce
from engine.backends.opencl.launches.rope import rope, supports_rope
from engine.backends.opencl.launches.rope_store import rope_store, supports_rope_store
from engine.backends.opencl.launches.rows import rows, set_rows, supports_rows, supports_set_rows
from engine.backends.opencl.launches.shape import arange, concat, pad, repeat, set_
from engine.backends.opencl.launches.sizes import readable
from engine.backends.opencl.launches.sort import argsort, supports_argsort
from engine.graph.op import Op
from engine.graph.tensor import Tensor

Supports = Callable[[Tensor, TypeOf], bool]


class Family(NamedTuple):
    """The two functions of a family for one operation."""

    supports: Supports
    make: MakeLaunches


FAMILIES: dict[Op, Family] = {
    Op.ADD: Family(supports_binary, binary),
    Op.SUB: Family(supports_binary, binary),
    Op.MUL: Family(supports_binary, binary),
    Op.DIV: Family(supports_binary, binary),
    Op.SCALE: Family(supports_unary, unary),
    Op.CLAMP: Family(supports_unary, unary),
    Op.SQR: Family(supports_unary, unary),
    Op.SQRT: Family(supports_unary, unary),
    Op.SIN: Family(supports_unary, unary),
    Op.COS: Family(supports_unary, unary),
    Op.SOFTCAP: Family(supports_unary, unary),
    Op.ADD_ID: Family(supports_add_id, add_id),
    Op.SILU: Family(supports_activation, activation),
    Op.GELU: Family(supports_activation, activation),
    Op.QUICK_GELU: Family(supports_activation, activation),
    Op.RELU: Family(supports_activation, activation),
    Op.TANH: Family(supports_activation, activation),
    Op.SIGMOID: Family(supports_activation, activation),
    Op.SWIGLU_LIMIT: Family(supports_activation, activation),
    Op.MATMUL: Family(supports_matmul, matmul),
    Op.MATMUL_ID: Family(supports_matmul_id, matmul_id),
    Op.QUANTIZE: Family(supports_quantize, quantize),
    Op.GROUP_IDS: Family(supports_group_ids, group_ids),
    Op.RMS_NORM: Family(supports_norm, norm),
    Op.LAYER_NORM: Family(supports_norm, norm),
    Op.L2_NORM: Family(supports_norm, norm),
    Op.SUM_ROWS: Family(supports_reduce, reduce),
    Op.MEAN: Family(supports_reduce, reduce),
    Op.ROPE: Family(supports_rope, rope),
    Op.SOFTMAX: Family(supports_softmax, softmax),
    Op.ATTENTION: Family(supports_attention, attention),
    Op.ROWS: Family(supports_rows, rows),
    Op.SET_ROWS: Family(supports_set_rows, set_rows),
    Op.COPY: Family(supports_copy, copy),
    Op.COPY_INTO: Family(supports_copy, copy),
    Op.SET: Family(readable, set_),
    Op.PAD: Family(readable, pad),
    Op.CONCAT: Family(readable, concat),
    Op.REPEAT: Family(readable, repeat),
    Op.ARANGE: Family(readable, arange),
    Op.ARGSORT: Family(supports_argsort, argsort),
    Op.IM2COL: Family(supports_image, im2col),
    Op.AVG_POOL_2D: Family(supports_image, avg_pool_2d),
    Op.INTERPOLATE: Family(supports_image, interpolate),
    Op.NORM_CHAIN: Family(supports_norm_chain, norm_chain),
    Op.ACTIVATION_QUANTIZE: Family(supports_activation_quantize, activation_quantize),
    Op.MATMUL_ADD: Family(supports_matmul_add, matmul_add),
    Op.MATMUL_GATED: Family(supports_matmul, matmul_gated),
    Op.ROPE_STORE: Family(supports_rope_store, rope_store),
}
