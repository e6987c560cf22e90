"""DeepSeek-V2, V3, R1, GLM-4.7-Flash, Kimi K2, Mistral Large 3: latent attention, grouped experts.

DeepSeek-AI 2024; tensor names and keys by the GGUF spec. Scores are scaled by YaRN, and turning
itself has no magnitude.
"""

from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Annotated

from engine.graph.ops.experts import Scoring
from engine.layers.blocks import PreNormBlock
from engine.layers.experts import Experts
from engine.layers.feed_forward import FeedForward
from engine.layers.latent import ExpandedLatentAttention, LatentAttention
from engine.layers.rope import RopeParams
from engine.layers.spec import AttentionSpec, BlockSpec, Temperature
from engine.models.decoder import CONTEXT, HEAD, PlainWeights
from engine.models.kept import Kept, Latent
from engine.models.routed import RoutedDecoder, RoutedParams
from engine.weights.params import WIDTH, Meta, Range

Block = PreNormBlock[LatentAttention | ExpandedLatentAttention, Experts | FeedForward]


@dataclass(frozen=True, kw_only=True)
class Params(RoutedParams):
    """Hyperparameters by their GGUF keys. `whole_length` is of a head of queries, of which
    `rope.dimension_count` channels turn; what is kept per token is `key_length`. Files from before
    2025 do not have it: theirs are keys and values of each head. Queries rise with their position
    (Mistral Large 3).
    """

    normalised = False

    rank: Annotated[int, Meta("attention.kv_lora_rank", WIDTH)]
    whole_length: Annotated[int, Meta("attention.key_length_mla", HEAD)] = 0
    value_length: Annotated[int, Meta("attention.value_length", HEAD)] = 0
    log_multiplier: Annotated[float, Meta("rope.scaling.yarn_log_multiplier", Range(0, 100))] = 0.0
    rise: Annotated[float, Meta("attention.temperature_scale", Range(0, 1e3))] = 0.0
    rise_length: Annotated[int, Meta("attention.temperature_length", CONTEXT)] = 0

    def problem(self) -> str:
        """A contradiction among the parameters, or ""."""
        if not self.whole_length:
            return self._early_problem() or super().problem()
        if any(count != 1 for count in self.heads_kv):
            return "head_count_kv is not 1, which goes with attention.key_length_mla"
        if self.key_length != self.rank + self.n_rot:
            parts = f"kv_lora_rank {self.rank} and rope.dimension_count {self.n_rot}"
            return f"key_length {self.key_length} is not the sum of {parts}"
        if self.whole_length <= self.n_rot:
            return f"key_length_mla {self.whole_length} is not above the {self.n_rot} that turn"
        return super().problem()

    def _early_problem(self) -> str:
        if self.heads_kv != self.heads:
            counts = f"head_count_kv {self.n_head_kv(0)} is not head_count {self.n_head(0)}"
            return f"{counts}, and there is no attention.key_length_mla"
        if not (0 < self.n_rot < self.key_length and self.value_length):
            lengths = f"key_length {self.key_length} and value_length {self.value_length}"
            return f"rope.dimension_count {self.n_rot} does not go with {lengths}"
        return ""

    @property
    def stretch(self) -> float:
        """ln of how many times longer contexts are than those it was first trained for."""
        return log(self.rope_factor or 1.0) if self.rope_scaling == "yarn" else 0.0

    def attention(self, rope: RopeParams | None, i: int = 0) -> AttentionSpec:
        magnitude = 1 + self.log_multiplier * self.stretch  # the file has a tenth of the factor
        scale = magnitude**2 / sqrt(self.whole_length or self.key_length)
        length = self.rise_length or self.rope_original
        temperature = Temperature(self.rise, length) if self.rise and length else None
        return replace(super().attention(rope, i), scale=scale, temperature=temperature)


Weights = PlainWeights[Block]


class Model(RoutedDecoder[Params, Weights]):
    """The first layers are dense."""

    def rope(self, i: int) -> RopeParams:
        rope = self.params.rope(neox=False)
        if rope.yarn is None:
            return rope
        plain = 1 / (1 + 0.1 * self.params.stretch)
        return replace(rope, yarn=replace(rope.yarn, attention=plain))

    def spec(self, i: int) -> BlockSpec:
        spec, feeds = super().spec(i), self.weights.blocks[i].ffn
        biased = isinstance(feeds, Experts) and feeds.bias is not None
        if spec.route is None or self.params.gating or not biased:
            return spec
        # Files without the key: a choice with a bias is one by sigmoids.
        return replace(spec, route=replace(spec.route, score=Scoring.SIGMOID))

    def kept_by(self, i: int) -> Kept:
        if isinstance(self.weights.blocks[i].attn, ExpandedLatentAttention):
            return replace(self.cells(i), value_dim=self.params.value_length)
        return Latent(self.params.n_rot, self.params.rank, self.rope(i))
