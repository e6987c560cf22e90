"""Attention and a feed-forward in every layer."""

from tests.engine.models.text.rows import Fault, Row

LLAMA = "engine/models/text/llama.py"
ATTENTION = "engine/layers/attention.py"

ROWS = (
    Row(
        "llama",
        "llama",
        "biases of q, k, v and o; factors of Llama 3 on three kinds of frequencies",
        Fault(LLAMA, "factors=by_pair", "factors=None"),
        launches=42,
    ),
    Row(
        "qwen2",
        "qwen2",
        "biases of q, k and v; no head_dim in the file",
        Fault("engine/models/text/qwen2.py", "self.rope(neox=True)", "self.rope(neox=False)"),
        launches=39,
    ),
    Row(
        "qwen3",
        "qwen3",
        "norms of q and k per head; heads wider than the embedding",
        Fault(ATTENTION, 'self.q_norm(q, spec.eps, "Qcur_normed", i),', "q,"),
        launches=30,
    ),
)
