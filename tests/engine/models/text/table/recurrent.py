"""Layers that carry a state from token to token, with attention between them or without."""

from tests.engine.models.text.rows import Fault, Row

DELTA_NET = "engine/layers/recurrent/delta_net.py"
MAMBA = "engine/layers/recurrent/mamba.py"
SHORT_CONV = "engine/layers/recurrent/short_conv.py"

ROWS = (
    Row(
        "lfm2",
        "lfm2",
        "convolutions and attention; norms of q and k",
        Fault(SHORT_CONV, "ops.mul(c, mixed)", "ops.mul(b, mixed)"),
        launches=32,
    ),
    Row(
        "qwen35",
        "qwen35",
        "delta nets whose heads of keys serve two of values by turns; gated attention, part turned",
        Fault("engine/models/text/qwen35.py", "tiled = True", "tiled = False"),
        launches=65,
    ),
    Row(
        "mamba2",
        "mamba2",
        "two groups, whose norms are apart; biases of the convolution",
        Fault(MAMBA, "ops.silu(z, p.carry(made, state)", "ops.silu(p.carry(made, state), z"),
        launches=36,
    ),
    Row(
        "mamba",
        "mamba",
        "decays by channel; biases of the convolution and of steps",
        Fault(MAMBA, "ops.softplus(self.dt(delta,", "ops.exp(self.dt(delta,"),
        launches=36,
    ),
    Row(
        "falcon_h1",
        "falcon-h1",
        "attention beside Mamba-2 in all layers; multipliers, which are in the weights",
        Fault("engine/models/text/falcon_h1.py", "self.mamba(entered,", "self.mamba(x,"),
        launches=51,
    ),
    Row(
        "nemotron_h",
        "nemotron_h",
        "layers of three kinds; steps of time below the least one",
        Fault("engine/models/text/nemotron_h.py", "LEAST_STEP = 1e-3", "LEAST_STEP = 0.0"),
        launches=46,
    ),
)
