"""Sources in whose place a kernel may write its result, as `Backend.in_place` has it.

An item must have read what it overwrites, and no other item may want it: true where an element of
the result depends on the same element alone, or where a group reads its rows to the end before it
writes any. What is read twice must be the same then.
"""

from collections.abc import Mapping

from engine.graph.lowered import CombineAdd, MatmulAdd, NormChain
from engine.graph.op import Op

IN_PLACE: Mapping[Op, tuple[int, ...]] = {
    **dict.fromkeys((Op.ADD, Op.SUB, Op.MUL, Op.DIV), (0, 1)),
    **dict.fromkeys((Op.SCALE, Op.SOFTCAP, Op.CLAMP, Op.ADD_ID), (0,)),
    **dict.fromkeys((Op.SQR, Op.SQRT, Op.SIN, Op.COS, Op.EXP, Op.SOFTPLUS), (0,)),
    # up as well as gate
    **dict.fromkeys((Op.SILU, Op.GELU, Op.GELU_ERF, Op.QUICK_GELU), (0, 1)),
    **dict.fromkeys((Op.RELU, Op.SWIGLU_LIMIT), (0, 1)),
    **dict.fromkeys((Op.TANH, Op.SIGMOID), (0,)),
    **dict.fromkeys((Op.RMS_NORM, Op.LAYER_NORM, Op.L2_NORM), (0,)),
    Op.SOFTMAX: (0,),
    Op.ROPE: (0,),  # an item reads both channels of a pair first
    Op.NORM_CHAIN: (NormChain.position("x"), NormChain.position("added")),
    Op.COMBINE_ADD: (CombineAdd.position("added"), CombineAdd.position("more")),
    Op.MATMUL_ADD: (MatmulAdd.position("added"),),
}
