"""Layers that carry a state from token to token, with attention between them or without."""

from tests.engine.models.text.rows import Fault, Row

SHORT_CONV = "engine/layers/short_conv.py"

ROWS = (
    Row(
        "lfm2",
        "lfm2",
        "convolutions and attention; norms of q and k",
        Fault(SHORT_CONV, "ops.mul(c, mixed)", "ops.mul(b, mixed)"),
        launches=32,
    ),
)
