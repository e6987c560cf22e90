"""Older models, and those whose layers differ in what they have, against llama.cpp's logits."""

from tests.engine.models.text.rows import Fault, Row

TEXT = "engine/models/text"

ROWS = (
    Row(
        "qwen",
        "qwen",
        "joint q, k, v with a bias; no head_count_kv in the file, twice its feed-forward's length",
        Fault("engine/models/decoder.py", "neox: ClassVar[bool] = True", "neox = False"),
        launches=23,
    ),
    Row(
        "codeshell",
        "codeshell",
        "joint q, k, v, LayerNorms, biases; embeddings looked up in the output's matrix",
        Fault(f"{TEXT}/starcoder2.py", "gated = GELU", "pass"),
        launches=33,
    ),
    Row(
        "openelm",
        "openelm",
        "heads, heads of keys and feed-forwards of each layer's own; norms of heads; tied output",
        Fault("engine/layers/attention.py", 'self.q_norm(q, spec.eps, "Qcur_normed", i),', "q,"),
        launches=23,
    ),
    Row(
        "plm",
        "plm",
        "keys and values of latents, part of a head turns; squared ReLUs; tied output",
        Fault(f"{TEXT}/plm.py", "neox = False", "neox = True"),
        launches=53,
    ),
    Row(
        "arctic",
        "arctic",
        "experts of what enters a block, beside a feed-forward of what attention leaves",
        Fault(f"{TEXT}/arctic.py", "self.experts_norm(x,", "self.experts_norm(h,"),
        launches=50,
    ),
    Row(
        "deci",
        "deci",
        "layers with attention, with a matrix in its place, and with a feed-forward alone",
        Fault(f"{TEXT}/deci.py", 'return self.o(x, "attn_out", i)', "return x"),
        launches=22,
    ),
    Row(
        "deci-blank",
        "deci",
        "a layer without any tensor, and one with a feed-forward alone",
        Fault(f"{TEXT}/deci.py", "ops.scale(x, 1.0)", "ops.scale(x, 2.0)"),
        launches=19,
    ),
)
