"""Attention to latents, one row a token for all heads."""

from tests.engine.models.text.rows import Fault, Row

DEEPSEEK = "engine/models/text/deepseek2.py"
ROUTED = "engine/models/routed.py"
LATENT = "engine/layers/latent.py"

ROWS = (
    Row(
        "deepseek_v2",
        "deepseek2",
        "whole queries; of four groups of experts the two with the best one; a dense layer",
        Fault(LATENT, "ops.concat(k_turned, c, 0)", "ops.concat(c, k_turned, 0)"),
        launches=66,
    ),
    Row(
        "deepseek_v3",
        "deepseek2",
        "queries of low rank; YaRN in turning and in scores; groups by their two best",
        Fault(DEEPSEEK, "1 / (1 + 0.1 * self.params.stretch)", "1.0"),
        launches=72,
    ),
    Row(
        "glm4_moe_lite",
        "deepseek2",
        "a file without a key for how experts are scored",
        Fault(DEEPSEEK, "if spec.route is None or self.params.gating or not biased:", "if True:"),
        launches=72,
    ),
    Row(
        "minicpm3",
        "minicpm3",
        "keys and values of each head; factors of branches; LongRoPE's short ones; tied",
        Fault("engine/models/text/minicpm3.py", "DEPTH / sqrt(self.params.n_layer)", "DEPTH"),
        launches=74,
    ),
    Row(
        "mistral4",
        "mistral4",
        "experts by a softmax in each layer, normalised, scaled; YaRN, and queries that rise",
        Fault("engine/models/text/mistral4.py", "= 0.1", "= 0.0"),
        launches=83,
    ),
    Row(
        "deepseek32",
        "deepseek32",
        "an index that chooses all tokens; YaRN in turning and in scores; groups of experts",
        Fault(ROUTED, "self.weights_scale or 1.0", "1.0"),
        launches=72,
    ),
    Row(
        "glm-dsa",
        "glm-dsa",
        "an index that chooses all tokens; no groups, a file without a key for how experts are"
        " scored",
        Fault(DEEPSEEK, "score=Scoring.SIGMOID", "score=Scoring.SOFTMAX"),
        launches=72,
    ),
)
