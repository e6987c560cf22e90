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
        launches=51,
    ),
    Row(
        "qwen2moe",
        "qwen2moe",
        "softmax, not normalised; a shared expert times a sigmoid; biases of q, k and v",
        Fault("engine/models/text/qwen2moe.py", "normalised = False", "normalised = True"),
        launches=53,
    ),
    Row(
        "qwen3moe",
        "qwen3moe",
        "softmax, normalised; norms of q and k per head",
        Fault(EXPERTS, "normalised=route.normalised", "normalised=False"),
        launches=51,
    ),
    Row(
        "glm4moe",
        "glm4moe",
        "a dense layer first; sigmoid with a bias for the choice, normalised, scaled; a shared"
        " expert; half of a head turns; the second norm's other name",
        Fault(EXPERTS, "scale=route.scale,", "scale=1.0,"),
        launches=61,
    ),
    Row(
        "minimax-m2",
        "minimax-m2",
        "sigmoid with a bias for the choice, normalised; norms of all heads; half of a head turns",
        Fault(EXPERTS, "route.score, self.bias, *groups", "route.score, None, *groups"),
        launches=57,
    ),
)
