"""Llama Nemotron 49B and 51B, DeciLM 7B: Llama, some of whose layers lack a part.

Deci, NVIDIA 2024; tensor names and keys by the GGUF spec. A layer without heads has a feed-forward
alone; one without heads of keys and values has a matrix in their place.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from engine.graph.tensor import Tensor
from engine.layers.attention import SelfAttention
from engine.layers.blocks import FeederBlock, PreNormBlock
from engine.layers.feed_forward import FeedForward
from engine.layers.linear import Linear, RMSNorm
from engine.layers.spec import BlockSpec
from engine.layers.step import LayerCache, Pass
from engine.models.decoder import HEAD, PlainWeights
from engine.models.kept import Kept, Nothing
from engine.models.routed import RoutedDecoder
from engine.models.text import llama
from engine.weights.bind import Name
from engine.weights.params import Meta


@dataclass(frozen=True, kw_only=True)
class Params(llama.Params):
    """Hyperparameters by their GGUF keys; what a layer has its tensors say."""

    heads: Annotated[tuple[int, ...], Meta("attention.head_count", HEAD, by_layer=True)]

    @property
    def head_dim(self) -> int:
        return self.key_length or self.n_embd // max(1, *self.heads)

    def problem(self) -> str:
        """A contradiction among the parameters, or ""."""
        if not any(self.heads):
            return "attention.head_count is 0 in all layers"
        return super().problem()


@dataclass(frozen=True)
class LinearMixer:
    """A matrix in place of attention: no token sees another."""

    o: Annotated[Linear, Name("attn_output")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, block: BlockSpec, cache: LayerCache | None
    ) -> Tensor:
        """x [E, T] -> [E, T] in layer i."""
        return self.o(x, "attn_out", i)


@dataclass(frozen=True)
class Fed(FeederBlock[FeedForward]):
    """A feed-forward alone, behind the norm that it has in every layer."""

    norm: Annotated[RMSNorm, Name("ffn_norm")]


Block = PreNormBlock[SelfAttention, FeedForward] | PreNormBlock[LinearMixer, FeedForward] | Fed
Weights = PlainWeights[Block]


class Model(RoutedDecoder[Params, Weights]):
    neox = False

    def kept(self) -> Sequence[Kept]:
        """Keys and values of the layers that attend."""
        layers = range(self.params.n_layer)
        return [self.cells(i) if self.attends(i) else Nothing() for i in layers]

    def n_heads(self, layer: int) -> int:
        return super().n_heads(layer) if self.attends(layer) else 0

    def attends(self, i: int) -> bool:
        """True if tokens of layer i see one another."""
        block = self.weights.blocks[i]
        return isinstance(block, PreNormBlock) and isinstance(block.attn, SelfAttention)
