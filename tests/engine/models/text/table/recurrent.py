"""Layers that carry a state from token to token, with attention between them or without."""

from tests.engine.models.text.rows import Fault, Row

DELTA_NET = "engine/layers/recurrent.py"
MAMBA = "engine/layers/recurrent.py"
EXPERTS = "engine/layers/experts.py"
SHORT_CONV = "engine/layers/recurrent.py"

ROWS = (
    Row(
        "lfm2",
        "lfm2",
        "convolutions and attention; norms of q and k",
        Fault(SHORT_CONV, "ops.mul(c, mixed)", "ops.mul(b, mixed)"),
        launches=25,
    ),
    Row(
        "qwen35",
        "qwen35",
        "delta nets whose heads of keys serve two of values by turns; gated attention, part turned",
        Fault("engine/models/text/qwen35.py", "[bool] = True", "[bool] = False"),
        launches=44,
    ),
    Row(
        "mamba2",
        "mamba2",
        "two groups, whose norms are apart; biases of the convolution",
        Fault(MAMBA, "ops.silu(z, p.carry(made, state)", "ops.silu(p.carry(made, state), z"),
        launches=26,
    ),
    Row(
        "mamba",
        "mamba",
        "decays by channel; biases of the convolution and of steps",
        Fault(MAMBA, "ops.softplus(self.dt(delta,", "ops.exp(self.dt(delta,"),
        launches=32,
    ),
    Row(
        "falcon_h1",
        "falcon-h1",
        "attention beside Mamba-2 in all layers; multipliers, which are in the weights",
        Fault("engine/models/text/falcon_h1.py", "self.mamba(entered,", "self.mamba(x,"),
        launches=41,
    ),
    Row(
        "nemotron_h",
        "nemotron_h",
        "layers of three kinds; steps of time below the least one",
        Fault("engine/models/text/nemotron_h.py", "LEAST_STEP = 1e-3", "LEAST_STEP = 0.0"),
        launches=33,
    ),
    Row(
        "lfm2moe",
        "lfm2moe",
        "LFM2 with a dense layer and others of experts, chosen with a bias",
        Fault(EXPERTS, "route.score, self.bias, *groups", "route.score, None, *groups"),
        launches=39,
    ),
    Row(
        "qwen35moe",
        "qwen35moe",
        "Qwen3.5 with experts, the shared one gated",
        Fault(EXPERTS, "if self.share is not None:", "if False:"),
        launches=92,
    ),
    Row(
        "qwen3next",
        "qwen3next",
        "steps and decays of one matrix; neighbouring heads of values share one of keys",
        Fault("engine/models/text/qwen3next.py", "tiled = False", "tiled = True"),
        launches=95,
    ),
    Row(
        "nemotron_h_moe",
        "nemotron_h_moe",
        "experts without gates, a shared one, weights times a factor",
        Fault("engine/models/text/nemotron_h_moe.py", "Scoring.SIGMOID", "Scoring.SOFTMAX"),
        launches=47,
    ),
    Row(
        "nemotron_h_latent",
        "nemotron_h_moe",
        "the same, with experts that see a smaller vector",
        Fault(
            "engine/models/text/nemotron_h_moe.py",
            'self.into(x, "ffn_latent_down", i), x, i',
            'self.into(x, "ffn_latent_down", i), ops.sqr(x), i',
        ),
        launches=49,
    ),
    Row(
        "granitehybrid",
        "granitehybrid",
        "Mamba-2 and attention without rope by turns, experts with a shared one, multipliers",
        Fault(
            MAMBA,
            "weightless(y.reshape(y.shape[0] // groups, groups,",
            "weightless(y.reshape(y.shape[0], 1,",
        ),
        launches=47,
    ),
    Row(
        "jamba",
        "jamba",
        "Mamba with norms of steps, b and c; attention without rope in one layer; experts in every"
        " other, not normalised",
        Fault(
            MAMBA,
            'self.b_norm(b, block.eps, "b_norm", i)',
            'self.c_norm(b, block.eps, "b_norm", i)',
        ),
        launches=70,
    ),
    Row(
        "kimi-linear",
        "kimi-linear",
        "a decay of each channel; latents that do not turn; a dense layer, then experts with a"
        " bias, scaled, and a shared one",
        Fault("engine/layers/kimi_delta.py", "ops.sigmoid(self.gate_b", "ops.silu(self.gate_b"),
        launches=80,
    ),
    Row(
        "rwkv7",
        "rwkv7",
        "states without attention; values on the way to the first layer's; two shifts of tokens",
        Fault("engine/layers/rwkv.py", "ops.sub(p.first_values, v), share", "v, share"),
        launches=108,
    ),
    Row(
        "arwkv7",
        "arwkv7",
        "RWKV-7 with a gated feed-forward, without gates and norms of heads; one shift",
        Fault(
            "engine/layers/rwkv.py",
            "if norm is None:\n        return y",
            "if norm is None:\n        return ops.layer_norm(y, None, None, GROUP_EPS)",
        ),
        launches=78,
    ),
    Row(
        "rwkv6",
        "rwkv6",
        "a bonus for the token itself; mixes by token; gated channels; halved behind each layer",
        Fault("engine/models/text/rwkv6.py", "ops.scale(x, 0.5)", "ops.scale(x, 1.0)"),
        launches=92,
    ),
    Row(
        "rwkv6-split",
        "rwkv6",
        "the same of an early file, never halved",
        Fault("engine/layers/rwkv.py", "(self.w, self.k, self.v,", "(self.w, self.v, self.k,"),
        launches=98,
    ),
    Row(
        "rwkv6qwen2",
        "rwkv6qwen2",
        "RWKV-6 with a gated feed-forward; shared keys, as strong as channels forget",
        Fault("engine/layers/rwkv.py", "ops.mul(k, ops.exp(decay))", "k"),
        launches=74,
    ),
    Row(
        "plamo2",
        "plamo2",
        "by llama.cpp: attention whose heads have norms of their own, then Mamba with a decay a"
        " head and norms of steps, b and c; sandwich norms; gate and up of one matrix",
        Fault(MAMBA, "z, given = ops.chunk", "given, z = ops.chunk"),
        launches=46,
    ),
)
