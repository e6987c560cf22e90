"""Gemma 3n and 4."""

from tests.engine.models.text.rows import Fault, Row

TEXT = "engine/models/text"

ROWS = (
    Row(
        "gemma4",
        "gemma4",
        "windows, two sizes of heads, borrowed keys, per-layer embeddings, layers of two widths",
        Fault("engine/layers/per_layer.py", "1 / sqrt(2)", "1 / sqrt(3)"),
        launches=94,
    ),
    Row(
        "gemma4-moe",
        "gemma4",
        "values that are keys, experts beside a dense feed-forward, pairs that stand still",
        Fault(f"{TEXT}/gemma4.py", "1 / sqrt(x.shape[0])", "1"),
        launches=90,
    ),
    Row(
        "gemma3n",
        "gemma3n",
        "four streams, borrowed keys, per-layer embeddings, feed-forwards sparse and not",
        Fault(f"{TEXT}/gemma3n.py", "ops.stddev(gate)", "ops.stddev(up)"),
        launches=290,
    ),
)
