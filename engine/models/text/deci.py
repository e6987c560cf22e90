"""Llama Nemotron 49B, 51B, Ultra 253B, DeciLM 7B: Llama, some of whose layers lack a part, or all.

Deci, NVIDIA 2024; tensor names and keys by the GGUF spec. A layer without heads has a feed-forward
alone, or nothing at all; one without heads of keys and values has a matrix in their place.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from engine.errors import ShapeError
from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.attention import SelfAttention
from engine.layers.blocks import FeederBlock, PreNormBlock, pruned
from engine.layers.feed_forward import FeedForward
from engine.layers.linear import Embedding, Linear, RMSNorm
from engine.layers.spec import BlockSpec
from engine.layers.step import LayerCache, Pass
from engine.models.decoder import HEAD
from engine.models.kept import Kept, Nothing
from engine.models.routed import RoutedDecoder
from engine.models.text import llama
from engine.weights.bind import Name
from engine.weights.params import COUNT, WIDTH, Meta, Range, of_layer

FEED = Range(0, WIDTH.high)


@dataclass(frozen=True, kw_only=True)
class Params(llama.Params):
    """Hyperparameters by their GGUF keys; what a layer has its tensors say."""

    heads: Annotated[tuple[int, ...], Meta("attention.head_count", HEAD, by_layer=True)]
    feeds: Annotated[tuple[int, ...], Meta("feed_forward_length", FEED, by_layer=True)] = (1,)

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


class Blank:
    """A layer without tensors: what enters it leaves it."""

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: BlockSpec, cache: LayerCache | None, last: bool
    ) -> Tensor:
        """x [E, T] -> [E, T]."""
        (x,) = pruned(p, last, x)
        return ops.scale(x, 1.0).named("l_out", i)  # each layer has a result to look at


Block = PreNormBlock[SelfAttention, FeedForward] | PreNormBlock[LinearMixer, FeedForward] | Fed


@dataclass(frozen=True)
class Weights:
    """Tensors of a Llama; numbers of blocks that have none are skipped."""

    embedding: Annotated[Embedding, Name("token_embd", rows=True)]
    present: Annotated[dict[int, Block], Name("blk")]
    norm: Annotated[RMSNorm, Name("output_norm")]
    output: Annotated[Linear, Name("output", alt="token_embd")]

    @cached_property
    def blocks(self) -> Sequence[Block | Blank]:
        """The layers up to the last one that has tensors, and no more than there can be but one: a
        file may call that 99999999.
        """
        n = min(max(self.present, default=-1), int(COUNT.high)) + 1
        return [self.present.get(i, Blank()) for i in range(n)]


class Model(RoutedDecoder[Params, Weights]):
    neox = False

    def kept(self) -> Sequence[Kept]:
        """Keys and values of the layers that attend. Raises `ShapeError` for a layer that has no
        tensors, and should have some.
        """
        layers = range(self.params.n_layer)
        for i in layers:
            fed = of_layer(self.params.feeds, i)
            if isinstance(self.weights.blocks[i], Blank) and (fed or self.params.n_head(i)):
                problem = f"layer {i} has no tensors, and feed_forward_length is {fed}"
                raise ShapeError("deci", problem)
        return [self.cells(i) if self.attends(i) else Nothing() for i in layers]

    def n_heads(self, layer: int) -> int:
        return super().n_heads(layer) if self.attends(layer) else 0

    def attends(self, i: int) -> bool:
        """True if tokens of layer i see one another."""
        block = self.weights.blocks[i]
        return isinstance(block, PreNormBlock) and isinstance(block.attn, SelfAttention)
