"""Operations whose result may lie where a source lies: they write it when all of it is computed."""

from engine.graph.op import Op

IN_PLACE = frozenset(
    {
        *(Op.ADD, Op.SUB, Op.MUL, Op.DIV),
        *(Op.SCALE, Op.CLAMP, Op.SQR, Op.SQRT, Op.SIN, Op.COS, Op.SOFTCAP),
        *(Op.EXP, Op.SOFTPLUS),
        *(Op.SILU, Op.GELU, Op.GELU_ERF, Op.QUICK_GELU, Op.RELU),
        *(Op.TANH, Op.SIGMOID, Op.SWIGLU_LIMIT),
        *(Op.RMS_NORM, Op.LAYER_NORM, Op.L2_NORM, Op.SOFTMAX),
    }
)
