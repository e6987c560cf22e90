"""The operation set: one function a node, one file a family; shapes are checked when it is made."""

from engine.graph.ops.activation import gelu, silu
from engine.graph.ops.arithmetic import add, div, mul, scale, softcap, sub
from engine.graph.ops.attention import attention, softmax
from engine.graph.ops.copy import cast, contiguous
from engine.graph.ops.matmul import mulmat
from engine.graph.ops.norm import rms_norm
from engine.graph.ops.rope import rope
from engine.graph.ops.rows import rows, set_rows

__all__ = [
    "add",
    "attention",
    "cast",
    "contiguous",
    "div",
    "gelu",
    "mul",
    "mulmat",
    "rms_norm",
    "rope",
    "rows",
    "scale",
    "set_rows",
    "silu",
    "softcap",
    "softmax",
    "sub",
]
