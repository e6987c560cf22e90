"""Llama 4, text: experts in some layers, attention in chunks, and every fourth layer without rope.

Meta 2025; tensor names and keys by the GGUF spec. Rope pairs are (2i, 2i+1), as in the original.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.attention import AttentionSpec, SelfAttention
from engine.layers.blocks import BlockSpec
from engine.layers.experts import Experts
from engine.layers.feed_forward import SWIGLU, FeedForward
from engine.layers.linear import Embedding, Linear, RMSNorm
from engine.layers.step import LayerCache, Pass, Temperature
from engine.models.decoder import Decoder, DecoderParams
from engine.models.kept import Cells, Chunk, Kept
from engine.weights.bind import Name
from engine.weights.params import TOKENS, Meta, Range

NO_ROPE_EVERY = 4
EXPERTS_OF_MAVERICK = 128
"""With as many, queries and keys are not normalised."""


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    """Hyperparameters by their GGUF keys; files of llama.cpp leave the last four out."""

    n_expert: Annotated[int, Meta("expert_count", Range(0, 1 << 16))] = 0
    n_used: Annotated[int, Meta("expert_used_count", Range(0, 1 << 16))] = 1
    chunk: Annotated[int, Meta("attention.chunk_size", TOKENS)] = 8192
    floor: Annotated[int, Meta("attention.floor_scale", TOKENS)] = 8192
    rise: Annotated[float, Meta("attention.scale", Range(0, 1e3))] = 0.1

    def has_rope(self, i: int) -> bool:
        """Whether layer i turns queries and keys, and sees no further than its chunk."""
        return (i + 1) % NO_ROPE_EVERY != 0

    def layer_attention(self, i: int) -> AttentionSpec:
        """Where nothing turns, queries rise with their position."""
        if self.has_rope(i):
            eps = None if self.n_expert == EXPERTS_OF_MAVERICK else self.rms_eps
            return replace(self.attention(self.rope(neox=False)), turned_eps=eps)
        temperature = Temperature(self.rise, self.floor, offset=1)
        return replace(self.attention(None), temperature=temperature)

    def problem(self) -> str:
        """What does not go together."""
        if self.n_expert and not 1 <= self.n_used <= self.n_expert:
            return f"expert_used_count is {self.n_used} of expert_count {self.n_expert}"
        return super().problem()


@dataclass(frozen=True)
class Block:
    """x += A(norm x); x += F(norm x), with experts where the file has them."""

    attn_norm: Annotated[RMSNorm, Name("attn_norm")]
    attn: SelfAttention
    ffn_norm: Annotated[RMSNorm, Name("ffn_norm")]
    ffn: Experts | FeedForward

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: BlockSpec, cache: LayerCache | None, last: bool
    ) -> Tensor:
        """x [E, T] -> [E, T] in layer i; in the `last` one only the wanted [E, n_outputs]."""
        h = self.attn(self.attn_norm(x, spec.eps, "attn_norm", i), i, p, spec.attention, cache)
        if last:
            h, x = p.prune(h), p.prune(x)
        x = ops.add(p.changes.of(h, i, "attention"), x).named("ffn_inp", i)
        h = self.ffn_norm(x, spec.eps, "ffn_norm", i)
        if isinstance(self.ffn, Experts):
            h = self.ffn(h, i, spec.gated, spec.used)
        else:
            h = self.ffn(h, i, spec.gated)
        return ops.add(p.changes.of(h, i, "feed_forward"), x).named("l_out", i)


@dataclass(frozen=True)
class Weights:
    """The whole model's tensors."""

    embedding: Annotated[Embedding, Name("token_embd", rows=True)]
    blocks: Annotated[list[Block], Name("blk")]
    norm: Annotated[RMSNorm, Name("output_norm")]
    output: Annotated[Linear, Name("output", alt="token_embd")]


class Model(Decoder[Params, Weights]):
    """Layers differ in what they see, how they turn, and whether they have experts."""

    def spec(self, i: int) -> BlockSpec:
        params = self.params
        return BlockSpec(params.layer_attention(i), SWIGLU, params.rms_eps, params.n_used)

    def kept(self) -> Sequence[Kept]:
        cells = [cells for cells in super().kept() if isinstance(cells, Cells)]
        params = self.params
        return [Chunk(c, params.chunk) if params.has_rope(i) else c for i, c in enumerate(cells)]
