"""Experts in place of a feed-forward."""

from tests.engine.models.text.rows import Fault, Row

EXPERTS = "engine/layers/experts.py"
ROUTED = "engine/models/routed.py"

ROWS = (
    Row(
        "mixtral",
        "llama",
        "two of six experts, softmax, normalised",
        Fault(ROUTED, "normalised: ClassVar[bool] = True", "normalised: ClassVar[bool] = False"),
        launches=44,
    ),
    Row(
        "qwen2moe",
        "qwen2moe",
        "softmax, not normalised; a shared expert times a sigmoid; biases of q, k and v",
        Fault("engine/models/text/qwen2moe.py", "normalised = False", "normalised = True"),
        launches=42,
    ),
    Row(
        "qwen3moe",
        "qwen3moe",
        "softmax, normalised; norms of q and k per head",
        Fault(EXPERTS, "normalised=route.normalised", "normalised=False"),
        launches=44,
    ),
    Row(
        "glm4moe",
        "glm4moe",
        "a dense layer first; sigmoid with a bias for the choice, normalised, scaled; a shared"
        " expert; half of a head turns; the second norm's other name",
        Fault(EXPERTS, "scale=route.scale,", "scale=1.0,"),
        launches=45,
    ),
    Row(
        "minimax-m2",
        "minimax-m2",
        "sigmoid with a bias for the choice, normalised; norms of all heads; half of a head turns",
        Fault(EXPERTS, "route.score, self.bias, *groups", "route.score, None, *groups"),
        launches=50,
    ),
    Row(
        "gpt-oss",
        "gpt-oss",
        "a softmax after the choice, biases of router and experts, sinks, a window in every other"
        " layer, YaRN without rounding, an activation with bounds",
        Fault("engine/models/text/gpt_oss.py", "truncate=False", "truncate=True"),
        launches=62,
    ),
    Row(
        "granitemoe",
        "granitemoe",
        "multipliers; experts and a shared one",
        Fault("engine/models/text/granite.py", "self.params.score_scale or ", ""),
        launches=44,
    ),
    Row(
        "laguna",
        "laguna",
        "heads by layer, gated by a softplus; a full layer with YaRN, windowed ones with a base of"
        " their own; a dense layer, then experts with a bias, scaled, and a shared one",
        Fault("engine/models/text/laguna.py", "ops.softplus(", "ops.sigmoid("),
        launches=79,
    ),
    Row(
        "olmoe",
        "olmoe",
        "softmax, not normalised; norms of all queries, of all keys",
        Fault("engine/models/text/olmoe.py", "normalised = False", "normalised = True"),
        launches=34,
    ),
    Row(
        "ernie4_5-moe",
        "ernie4_5-moe",
        "softmax with a bias for the choice, normalised; a shared expert; experts in every other"
        " layer behind a dense one",
        Fault(
            EXPERTS,
            'ops.add(shared, self.routed(x, x, i, spec)).named("ffn_out", i)',
            "self.routed(x, x, i, spec)",
        ),
        launches=50,
    ),
    Row(
        "qwen3vlmoe",
        "qwen3vlmoe",
        "experts, norms of heads, pairs in sections by turns",
        Fault(
            ROUTED,
            "score: ClassVar[Scoring] = Scoring.SOFTMAX",
            "score: ClassVar[Scoring] = Scoring.SIGMOID",
        ),
        launches=30,
    ),
    Row(
        "hunyuan-moe",
        "hunyuan-moe",
        "softmax, normalised; a shared expert; norms of q and k after their turning",
        Fault(
            "engine/layers/attention.py",
            "ops.mul(q, self.k_norm.weight)",
            "ops.mul(q, self.q_norm.weight)",
        ),
        launches=48,
    ),
    Row(
        "dots1",
        "dots1",
        "a dense layer first; sigmoid with a bias for the choice, normalised, scaled; shared"
        " experts; norms of q and k per head",
        Fault("engine/models/decoder.py", "neox: ClassVar[bool] = True", "neox = False"),
        launches=43,
    ),
    Row(
        "afmoe",
        "afmoe",
        "sandwich norms, gated attention, scaled embeddings, windows, a layer without positions; a"
        " dense layer, then experts with a bias, scaled, and a shared one",
        Fault("engine/models/text/afmoe.py", "sqrt(self.params.n_embd)", "self.params.n_embd"),
        launches=85,
    ),
    Row(
        "exaone-moe",
        "exaone-moe",
        "windows, a layer without positions, norms of q and k; a dense layer, then experts with a"
        " bias, scaled, and a shared one",
        Fault(
            "engine/models/text/exaone_moe.py",
            "self.turned if self.params.is_windowed(i) else None",
            "self.turned",
        ),
        launches=65,
    ),
    Row(
        "phimoe",
        "phimoe",
        "two experts by SparseMixer; LayerNorms, biases, a window, LongRoPE",
        Fault("engine/models/text/phimoe.py", "Scoring.SPARSE_MIXER", "Scoring.SOFTMAX"),
        launches=33,
    ),
    Row(
        "dbrx",
        "dbrx",
        "softmax, normalised; LayerNorms without biases; bounded queries, keys and values",
        Fault("engine/models/decoder.py", "clamp=self.clamp", "clamp=2 * self.clamp"),
        launches=39,
    ),
    Row(
        "deepseek",
        "deepseek",
        "by llama.cpp: a dense layer, then experts by softmax, not normalised, and shared ones",
        Fault("engine/models/text/deepseek.py", "normalised = False", "normalised = True"),
        launches=26,
    ),
    Row(
        "bailingmoe",
        "bailingmoe",
        "by llama.cpp: softmax, normalised by the file's key; shared experts",
        Fault(
            ROUTED,
            "self.normalised if self.weights_norm is None else self.weights_norm",
            "self.normalised",
        ),
        launches=36,
    ),
    Row(
        "bailingmoe2",
        "bailingmoe2",
        "by llama.cpp: one matrix of q, k and v, whose norms are per head; half of a head turns; a"
        " dense layer, then the best two of four groups, sigmoid with a bias, scaled, and a shared"
        " expert",
        Fault(ROUTED, "(self.n_group_used or groups) if groups > 1 else 1", "groups"),
        launches=45,
    ),
    Row(
        "mimo2",
        "mimo2",
        "keys longer than values, which are scaled; windows with sinks, a base and heads of their"
        " own; a dense layer, then experts with a bias; a third of a head turns",
        Fault("engine/models/text/mimo2.py", "seen + 1", "seen"),
        launches=55,
    ),
    Row(
        "smallthinker",
        "smallthinker",
        "by llama.cpp: experts with ReLUs, chosen by sigmoids of what enters the block, normalised;"
        " every fourth layer without positions (its window of 4,096 is longer than the texts)",
        Fault(
            "engine/models/text/smallthinker.py",
            "routed(normed, entered, i, spec)",
            "routed(normed, normed, i, spec)",
        ),
        launches=32,
    ),
    Row(
        "mimo2-joint",
        "mimo2",
        "by llama.cpp: one matrix of queries, keys and shorter values, whose heads differ by layer",
        Fault("engine/models/text/mimo2.py", "self.value_scale or 1.0", "1.0"),
        launches=25,
    ),
    Row(
        "hy_v3",
        "hy_v3",
        "a dense layer, then experts by sigmoids with a bias, normalised, scaled, and a shared one",
        Fault("engine/models/decoder.py", "neox: ClassVar[bool] = True", "neox = False"),
        launches=45,
    ),
    Row(
        "mellum",
        "mellum",
        "windows with a base of their own, every fourth layer full with YaRN; softmax, normalised",
        Fault("engine/models/text/mellum.py", "self.params.turned(i)", "self.params.turned(3)"),
        launches=58,
    ),
    Row(
        "cohere2moe",
        "cohere2moe",
        "a dense layer that turns without a window, windows, a layer without positions; half of"
        " experts by sigmoids, normalised, and of a shared one; LayerNorms, tied output",
        Fault("engine/models/text/cohere2moe.py", " or i < self.params.n_dense", ""),
        launches=73,
    ),
    Row(
        "granite_swa",
        "granite_swa",
        "windows with sinks, a layer without positions, multipliers; experts in one matrix, so a"
        " shared one",
        Fault("engine/models/text/granite_swa.py", " or self.params.turning[i]", " or True"),
        launches=61,
    ),
    Row(
        "step35",
        "step35",
        "by llama.cpp: gated heads, a window with heads and a base of its own, half of a head by"
        " factors in full layers; a dense layer, then experts with a bias, scaled, and a shared"
        " one; bounds of activations in the last",
        Fault("engine/models/text/step35.py", "params.shared_limits, i", "params.limits, i"),
        launches=65,
    ),
    Row(
        "minimax-m3",
        "minimax-m3",
        "by llama.cpp: an index that chooses all blocks; norms of q and k per head, half of a head"
        " turns; a dense layer, then experts with a bias, scaled, and a shared one, all bounded",
        Fault("engine/models/text/gpt_oss.py", "= 1.702, 7.0", "= 1.702, 9.0"),
        launches=31,
    ),
    Row(
        "grok",
        "grok",
        "by llama.cpp: sandwich norms, experts beside a feed-forward, normalised; scores and logits"
        " capped, a factor for each and for embeddings; YaRN with turns of its own",
        Fault("engine/models/text/grok.py", "softcap=self.score_cap", "softcap=0.0"),
        launches=43,
    ),
    Row(
        "grok-1",
        "grok",
        "by llama.cpp: a file of experts alone and without factors, the last norm's other name",
        Fault("engine/models/text/grok.py", "scale=self.score_scale", "scale=1.0"),
        launches=34,
    ),
    Row(
        "grovemoe",
        "grovemoe",
        "by llama.cpp: experts by softmax, normalised, and those that two of them share, which read"
        " their sum; one matrix of q, k and v, whose norms are per head",
        Fault("engine/models/text/grovemoe.py", "ops.scale(more, route.share)", "more"),
        launches=56,
    ),
)
