"""Which function computes which operation: (node, out, *sources), None where one is absent."""

from collections.abc import Callable

from engine.backends.host import (
    activation,
    arithmetic,
    attention,
    copy,
    matmul,
    norm,
    rope,
    rows,
)
from engine.graph.op import Op

FAMILIES: dict[Op, Callable[..., None]] = {
    Op.ADD: arithmetic.add,
    Op.SUB: arithmetic.sub,
    Op.MUL: arithmetic.mul,
    Op.DIV: arithmetic.div,
    Op.SCALE: arithmetic.scale,
    Op.SOFTCAP: arithmetic.softcap,
    Op.SILU: activation.silu,
    Op.GELU: activation.gelu,
    Op.MULMAT: matmul.mulmat,
    Op.RMS_NORM: norm.rms_norm,
    Op.ROPE: rope.rope,
    Op.ROWS: rows.rows,
    Op.SET_ROWS: rows.set_rows,
    Op.COPY: copy.copy,
    Op.ATTENTION: attention.attention,
    Op.SOFTMAX: attention.softmax,
}
