"""The operation set, in ggml's words."""

from enum import StrEnum


class Op(StrEnum):
    """The operation of a node. The first group moves no data."""

    NONE = "none"
    VIEW = "view"
    RESHAPE = "reshape"
    PERMUTE = "permute"

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    SCALE = "scale"
    CLAMP = "clamp"
    SQR = "sqr"
    SQRT = "sqrt"
    SIN = "sin"
    COS = "cos"
    EXP = "exp"
    SOFTPLUS = "softplus"
    SOFTCAP = "softcap"
    ADD_ID = "add_id"

    SILU = "silu"
    GELU = "gelu"
    GELU_ERF = "gelu_erf"
    QUICK_GELU = "quick_gelu"
    RELU = "relu"
    TANH = "tanh"
    SIGMOID = "sigmoid"
    SWIGLU_LIMIT = "swiglu_limit"
    XIELU = "xielu"

    MATMUL = "matmul"
    MATMUL_ID = "matmul_id"
    ROUTE = "route"
    ROUTE_WEIGHTS = "route_weights"
    COMBINE = "combine"

    RMS_NORM = "rms_norm"
    LAYER_NORM = "layer_norm"
    L2_NORM = "l2_norm"
    SUM_ROWS = "sum_rows"
    MEAN = "mean"

    ROPE = "rope"
    SOFTMAX = "softmax"
    ATTENTION = "attention"

    CAUSAL_CONV = "causal_conv"
    DELTA_NET = "delta_net"
    SSM_SCAN = "ssm_scan"
    TOKEN_SHIFT = "token_shift"
    WKV = "wkv"

    ROWS = "rows"
    SET_ROWS = "set_rows"
    COPY = "copy"
    COPY_INTO = "copy_into"
    SET = "set"
    PAD = "pad"
    CONCAT = "concat"
    REPEAT = "repeat"
    ARANGE = "arange"
    ARGSORT = "argsort"
    BEST = "best"
    EDIT = "edit"

    IM2COL = "im2col"
    AVG_POOL_2D = "avg_pool_2d"
    INTERPOLATE = "interpolate"

    # Made by a backend's lowering, never by a model: lowered.py.
    QUANTIZE = "quantize"
    RESULT = "result"
    GROUP_IDS = "group_ids"
    ATTENTION_MERGE = "attention_merge"
    ARGSORT_MERGE = "argsort_merge"
    BEST_MERGE = "best_merge"
    NORM_CHAIN = "norm_chain"
    ACTIVATION_QUANTIZE = "activation_quantize"
    MATMUL_TILED = "matmul_tiled"
    MATMUL_EXPERTS = "matmul_experts"
    MATMUL_ADD = "matmul_add"
    MATMUL_GATED = "matmul_gated"
    NORM_MATMUL = "norm_matmul"
    NORM_GATED = "norm_gated"
    FEED_CHAIN = "feed_chain"
    COMBINE_ADD = "combine_add"
    ROPE_STORE = "rope_store"


VIEW_OPS = frozenset({Op.VIEW, Op.RESHAPE, Op.PERMUTE})
LOWERED_OPS = frozenset(
    {
        Op.QUANTIZE,
        Op.RESULT,
        Op.GROUP_IDS,
        Op.ATTENTION_MERGE,
        Op.ARGSORT_MERGE,
        Op.BEST_MERGE,
        Op.NORM_CHAIN,
        Op.ACTIVATION_QUANTIZE,
        Op.MATMUL_TILED,
        Op.MATMUL_EXPERTS,
        Op.MATMUL_ADD,
        Op.MATMUL_GATED,
        Op.NORM_MATMUL,
        Op.NORM_GATED,
        Op.FEED_CHAIN,
        Op.COMBINE_ADD,
        Op.ROPE_STORE,
    }
)
"""What a backend's lowering makes: no model does, and `supports` is never called for it."""
