"""BitNet b1.58 of 1bitLLM: Llama with a norm before each matrix that writes to the residual.

Wang et al. 2023, Ma et al. 2024; tensor names and keys by the GGUF spec. Weights are -1, 0 or 1
times a scale; activations are not rounded to 8 bits, as they are in training. Pairs are NeoX's.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.graph.tensor import Tensor
from engine.layers.attention import Heads, SelfAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.feed_forward import FeedForward
from engine.layers.linear import RMSNorm
from engine.layers.spec import AttentionSpec, BlockSpec
from engine.layers.step import LayerCache, Pass
from engine.models.decoder import Decoder, DecoderParams, PlainWeights
from engine.weights.bind import Name

Params = DecoderParams


@dataclass(frozen=True)
class SubNormedAttention(SelfAttention):
    """Normalise the results of all heads together."""

    sub_norm: Annotated[RMSNorm, Name("attn_sub_norm")]

    def mixed(
        self, heads: Heads, i: int, p: Pass, spec: AttentionSpec, cache: LayerCache | None
    ) -> Tensor:
        mixed = super().mixed(heads, i, p, spec, cache)
        return self.sub_norm(mixed, spec.eps, "attn_sub_norm", i)


@dataclass(frozen=True)
class SubNormedFeedForward(FeedForward):
    """down(norm(act(gate(x)) * up(x)))."""

    sub_norm: Annotated[RMSNorm, Name("ffn_sub_norm")]

    def __call__(self, x: Tensor, i: int, spec: BlockSpec) -> Tensor:
        """x [E, T] -> [E, T] in layer i."""
        gate, up = self.gate(x, "ffn_gate", i), self.up(x, "ffn_up", i)
        mixed = spec.gated.activation(gate, up).named(spec.gated.name, i)
        return self.down(self.sub_norm(mixed, spec.eps, "ffn_sub_norm", i), "ffn_out", i)


Weights = PlainWeights[PreNormBlock[SubNormedAttention, SubNormedFeedForward]]


class Model(Decoder[Params, Weights]):
    """All layers are alike."""
