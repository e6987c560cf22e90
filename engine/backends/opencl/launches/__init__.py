"""Which family makes the launches of an operation: one row per operation, nothing is computed here.

`supports(node, type_of)` says whether the family has kernels for a model's node as it is, with its
types and layouts; `make(node, type_of, traits)` gives a lowered node's launches, in order. Both are
pure.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from engine.backends.opencl.launch import DeviceTraits, Launch, MakeLaunches
from engine.backends.opencl.launches import matmul_plain
from engine.backends.opencl.launches.activation import (
    activation,
    activation_quantize,
    supports_activation,
)
from engine.backends.opencl.launches.arithmetic import (
    add_id,
    binary,
    supports_add_id,
    supports_arithmetic,
    unary,
)
from engine.backends.opencl.launches.attention import (
    attention,
    attention_merge,
    softmax,
    supports_attention,
    supports_softmax,
)
from engine.backends.opencl.launches.best import best, best_merge, supports_best
from engine.backends.opencl.launches.edit import edit, supports_edit
from engine.backends.opencl.launches.experts import (
    combine,
    combine_add,
    route,
    route_weights,
    supports_combine,
    supports_route,
    supports_route_weights,
)
from engine.backends.opencl.launches.feed_chain import feed_chain
from engine.backends.opencl.launches.image import (
    avg_pool_2d,
    im2col,
    interpolate,
    supports_image,
)
from engine.backends.opencl.launches.matmul_experts import (
    group_ids,
    matmul_experts,
    supports_matmul_id,
)
from engine.backends.opencl.launches.matmul_normed import norm_gated, norm_matmul
from engine.backends.opencl.launches.matmul_tiled import (
    matmul_add,
    matmul_gated,
    matmul_tiled,
    supports_matmul,
)
from engine.backends.opencl.launches.move import copy, supports_copy
from engine.backends.opencl.launches.norm import norm, reduce, supports_norm, supports_reduce
from engine.backends.opencl.launches.norm_chain import norm_chain
from engine.backends.opencl.launches.quantize import quantize
from engine.backends.opencl.launches.recurrent import (
    causal_conv,
    delta_net,
    ssm_scan,
    supports_causal_conv,
    supports_delta_net,
    supports_ssm_scan,
    supports_token_shift,
    supports_wkv,
    token_shift,
    wkv,
)
from engine.backends.opencl.launches.rope import rope, rope_store, supports_rope
from engine.backends.opencl.launches.rows import rows, set_rows, supports_rows, supports_set_rows
from engine.backends.opencl.launches.shape import arange, concat, pad, repeat, set_
from engine.backends.opencl.launches.sizes import readable
from engine.backends.opencl.launches.sort import argsort, argsort_merge, supports_argsort
from engine.device.backend import TypeOf
from engine.graph.op import Op
from engine.graph.tensor import Tensor

Supports = Callable[[Tensor, TypeOf], bool]


class KernelFamily(NamedTuple):
    """The two functions of a family for one operation."""

    supports: Supports
    make: MakeLaunches


KERNEL_FAMILIES: dict[Op, KernelFamily] = {
    Op.ADD: KernelFamily(supports_arithmetic, binary),
    Op.SUB: KernelFamily(supports_arithmetic, binary),
    Op.MUL: KernelFamily(supports_arithmetic, binary),
    Op.DIV: KernelFamily(supports_arithmetic, binary),
    Op.SCALE: KernelFamily(supports_arithmetic, unary),
    Op.CLAMP: KernelFamily(supports_arithmetic, unary),
    Op.SQR: KernelFamily(supports_arithmetic, unary),
    Op.SQRT: KernelFamily(supports_arithmetic, unary),
    Op.SIN: KernelFamily(supports_arithmetic, unary),
    Op.COS: KernelFamily(supports_arithmetic, unary),
    Op.EXP: KernelFamily(supports_arithmetic, unary),
    Op.SOFTPLUS: KernelFamily(supports_arithmetic, unary),
    Op.SOFTCAP: KernelFamily(supports_arithmetic, unary),
    Op.ADD_ID: KernelFamily(supports_add_id, add_id),
    Op.SILU: KernelFamily(supports_activation, activation),
    Op.GELU: KernelFamily(supports_activation, activation),
    Op.GELU_ERF: KernelFamily(supports_activation, activation),
    Op.QUICK_GELU: KernelFamily(supports_activation, activation),
    Op.RELU: KernelFamily(supports_activation, activation),
    Op.TANH: KernelFamily(supports_activation, activation),
    Op.SIGMOID: KernelFamily(supports_activation, activation),
    Op.SWIGLU_LIMIT: KernelFamily(supports_activation, activation),
    Op.XIELU: KernelFamily(supports_activation, activation),
    Op.MATMUL: KernelFamily(supports_matmul, matmul_plain.matmul),
    Op.MATMUL_ID: KernelFamily(supports_matmul_id, matmul_plain.matmul_id),
    Op.ROUTE: KernelFamily(supports_route, route),
    Op.ROUTE_WEIGHTS: KernelFamily(supports_route_weights, route_weights),
    Op.COMBINE: KernelFamily(supports_combine, combine),
    Op.RMS_NORM: KernelFamily(supports_norm, norm),
    Op.LAYER_NORM: KernelFamily(supports_norm, norm),
    Op.L2_NORM: KernelFamily(supports_norm, norm),
    Op.SUM_ROWS: KernelFamily(supports_reduce, reduce),
    Op.MEAN: KernelFamily(supports_reduce, reduce),
    Op.ROPE: KernelFamily(supports_rope, rope),
    Op.SOFTMAX: KernelFamily(supports_softmax, softmax),
    Op.ATTENTION: KernelFamily(supports_attention, attention),
    Op.CAUSAL_CONV: KernelFamily(supports_causal_conv, causal_conv),
    Op.DELTA_NET: KernelFamily(supports_delta_net, delta_net),
    Op.SSM_SCAN: KernelFamily(supports_ssm_scan, ssm_scan),
    Op.TOKEN_SHIFT: KernelFamily(supports_token_shift, token_shift),
    Op.WKV: KernelFamily(supports_wkv, wkv),
    Op.ROWS: KernelFamily(supports_rows, rows),
    Op.SET_ROWS: KernelFamily(supports_set_rows, set_rows),
    Op.COPY: KernelFamily(supports_copy, copy),
    Op.COPY_INTO: KernelFamily(supports_copy, copy),
    Op.SET: KernelFamily(readable, set_),
    Op.PAD: KernelFamily(readable, pad),
    Op.CONCAT: KernelFamily(readable, concat),
    Op.REPEAT: KernelFamily(readable, repeat),
    Op.ARANGE: KernelFamily(readable, arange),
    Op.ARGSORT: KernelFamily(supports_argsort, argsort),
    Op.BEST: KernelFamily(supports_best, best),
    Op.EDIT: KernelFamily(supports_edit, edit),
    Op.IM2COL: KernelFamily(supports_image, im2col),
    Op.AVG_POOL_2D: KernelFamily(supports_image, avg_pool_2d),
    Op.INTERPOLATE: KernelFamily(supports_image, interpolate),
}

LOWERED: dict[Op, MakeLaunches] = {
    Op.QUANTIZE: quantize,
    Op.GROUP_IDS: group_ids,
    Op.ATTENTION_MERGE: attention_merge,
    Op.ARGSORT_MERGE: argsort_merge,
    Op.BEST_MERGE: best_merge,
    Op.NORM_CHAIN: norm_chain,
    Op.ACTIVATION_QUANTIZE: activation_quantize,
    Op.MATMUL_TILED: matmul_tiled,
    Op.MATMUL_EXPERTS: matmul_experts,
    Op.MATMUL_ADD: matmul_add,
    Op.MATMUL_GATED: matmul_gated,
    Op.NORM_MATMUL: norm_matmul,
    Op.NORM_GATED: norm_gated,
    Op.FEED_CHAIN: feed_chain,
    Op.ROPE_STORE: rope_store,
    Op.COMBINE_ADD: combine_add,
}
"""What lowering makes; it makes nothing that is not supported."""


def launches_of(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """The launches of a lowered node; none for a RESULT, written by the previous node's launch."""
    if node.op is Op.RESULT:
        return ()
    make = LOWERED.get(node.op) or KERNEL_FAMILIES[node.op].make
    return make(node, type_of, traits)
