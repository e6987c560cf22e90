"""Kimi Linear 48B-A3B: delta rules with a decay of each channel, latent attention in some layers.

Moonshot AI 2025; tensor names and keys by the GGUF spec. Nothing turns; experts as in DeepSeek-V3.
"""

from dataclasses import dataclass, replace
from math import sqrt
from typing import Annotated

from engine.graph.ops.experts import Scoring
from engine.layers.blocks import PreNormBlock
from engine.layers.experts import Experts
from engine.layers.feed_forward import FeedForward
from engine.layers.kimi_delta import KimiDeltaNet
from engine.layers.latent import LatentAttention
from engine.layers.rope import RopeParams
from engine.layers.spec import AttentionSpec, BlockSpec, RecurrenceSpec
from engine.models.decoder import PlainWeights
from engine.models.kept import Kept, Latent, State
from engine.models.recurrent import KERNEL
from engine.models.routed import RoutedDecoder, RoutedParams
from engine.weights.params import COUNT, WIDTH, Meta


@dataclass(frozen=True, kw_only=True)
class Params(RoutedParams):
    """Hyperparameters by their GGUF keys; what latent layers keep per token is `key_length`."""

    score = Scoring.SIGMOID

    rank: Annotated[int, Meta("attention.kv_lora_rank", WIDTH)]
    whole_length: Annotated[int, Meta("attention.key_length_mla", WIDTH)]
    kernel: Annotated[int, Meta("ssm.conv_kernel", KERNEL)]
    state_dim: Annotated[int, Meta("kda.head_dim", COUNT)]

    def problem(self) -> str:
        """A contradiction among the parameters, or ""."""
        if self.key_length != self.rank + self.n_rot:
            parts = f"kv_lora_rank {self.rank} and rope.dimension_count {self.n_rot}"
            return f"key_length {self.key_length} is not the sum of {parts}"
        return super().problem()

    def attention(self, rope: RopeParams | None, i: int = 0) -> AttentionSpec:
        return replace(super().attention(rope, i), scale=1 / sqrt(self.whole_length))

    def recurrence(self, i: int) -> RecurrenceSpec:
        """The heads of layer i's state."""
        return RecurrenceSpec(self.state_dim, self.state_dim, self.n_head(i), self.n_head(i))


Weights = PlainWeights[
    PreNormBlock[KimiDeltaNet, Experts | FeedForward]
    | PreNormBlock[LatentAttention, Experts | FeedForward]
]


class Model(RoutedDecoder[Params, Weights]):
    """Layers differ in what mixes their tokens, and whether they have experts."""

    def rope(self, i: int) -> RopeParams | None:
        return None

    def spec(self, i: int) -> BlockSpec:
        return replace(super().spec(i), recurrence=self.params.recurrence(i))

    def state(self, i: int) -> State | None:
        if not isinstance(self.weights.blocks[i].attn, KimiDeltaNet):
            return None
        spec = self.params.recurrence(i)
        return State(3 * spec.dim * spec.heads, self.params.kernel, spec.elements)

    def kept_by(self, i: int) -> Kept:
        return self.state(i) or Latent(self.params.n_rot, self.params.rank, None)
