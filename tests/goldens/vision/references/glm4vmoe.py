"""Glm4vMoeForConditionalGeneration: experts read rows of the same tower."""

from __future__ import annotations

from transformers import Glm4vMoeConfig, Glm4vMoeForConditionalGeneration, PreTrainedModel

from tests.goldens.vision.files.glm4vmoe import DENSE, EXPERTS, SCALE, TOWER, USED, WIDE
from tests.goldens.vision.references.glm4v import made, seen


def _model() -> PreTrainedModel:
    experts = {
        "n_routed_experts": EXPERTS,
        "num_experts_per_tok": USED,
        "n_shared_experts": 1,
        "moe_intermediate_size": WIDE,
        "first_k_dense_replace": DENSE,
        "routed_scaling_factor": SCALE,
        "norm_topk_prob": True,
    }
    return made(Glm4vMoeForConditionalGeneration, Glm4vMoeConfig, TOWER, **experts)


REFERENCE = seen(_model)
