"""North Mini Code: Command R7B's block with experts, half of them and of a shared one together.

Cohere 2026; tensor names and keys by the GGUF spec. The first, dense layers turn whatever they see.
Norms are by root mean square where the file has an epsilon of such. The block behind the last
layer, which predicts, is left alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from engine.graph import ops
from engine.graph.ops.experts import Scoring
from engine.graph.tensor import Tensor
from engine.layers.attention import SelfAttention
from engine.layers.blocks import RMSParallelBlock
from engine.layers.experts import Experts
from engine.layers.feed_forward import FeedForward
from engine.layers.linear import LayerNorm, RMSNorm
from engine.layers.rope import RopeParams
from engine.layers.spec import BlockSpec
from engine.models.constants import Values
from engine.models.decoder import PlainWeights
from engine.models.routed import SOME, RoutedDecoder, RoutedParams
from engine.models.text.cohere2 import LOGIT_SCALE
from engine.models.windowed import WindowedDecoder, WindowedParams
from engine.weights.params import EPSILON, Meta

RMS_EPS = "attention.layer_norm_rms_epsilon"


@dataclass(frozen=True, kw_only=True)
class Params(RoutedParams, WindowedParams):
    """Hyperparameters by their GGUF keys; `rms_eps` 0: norms take off the mean."""

    every = 4
    score = Scoring.SIGMOID
    normalised = False

    eps: Annotated[float, Meta(RMS_EPS, EPSILON, alt=("attention.layer_norm_epsilon",))]
    rms_eps: Annotated[float, Meta(RMS_EPS, EPSILON)] = 0.0
    logit_scale: Annotated[float, Meta("logit_scale", LOGIT_SCALE)]
    n_dense: Annotated[int, Meta("leading_dense_block_count", SOME)] = 0


@dataclass(frozen=True)
class AveragedExperts(Experts):
    """The mean of a shared expert and of the chosen ones' sum."""

    def __call__(self, x: Tensor, i: int, spec: BlockSpec) -> Tensor:
        y = super().__call__(x, i, spec)
        return y if self.shared is None else ops.scale(y, 0.5).named("ffn_halved", i)


@dataclass(frozen=True)
class Weights(PlainWeights[RMSParallelBlock[SelfAttention, AveragedExperts | FeedForward]]):
    """The whole model's tensors."""


class Model(RoutedDecoder[Params, Weights], WindowedDecoder[Params, Weights]):
    """Layers differ in what they see, whether they turn, and whether they have experts."""

    neox = False

    def __init__(
        self, params: Params, weights: Weights, constants: Mapping[str, Values], n_ctx: int
    ) -> None:
        if not params.rms_eps:
            weights = replace(
                weights,
                norm=of_deviations(weights.norm),
                blocks=[replace(b, attn_norm=of_deviations(b.attn_norm)) for b in weights.blocks],
            )
        super().__init__(params, weights, constants, n_ctx)

    def rope(self, i: int) -> RopeParams | None:
        turns = self.params.is_windowed(i) or i < self.params.n_dense
        return self.turned if turns else None

    def logits(self, x: Tensor) -> Tensor:
        return ops.scale(super().logits(x), self.params.logit_scale).named("result_output")


def of_deviations(norm: RMSNorm) -> LayerNorm:
    """The norm with the same weights that takes off the mean."""
    return LayerNorm(norm.weight, None)
