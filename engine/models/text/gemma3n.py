"""Gemma 3n: E2B, E4B; four streams, of which each layer computes one, and sparse feed-forwards.

Gemma Team 2025; tensor names and keys by the GGUF spec. Norm weights are as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, sqrt
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.altup import STREAMS, AltUp, Unfolding, first, others
from engine.layers.blocks import joined, pruned
from engine.layers.feed_forward import FeedForward
from engine.layers.lending import LendingAttention
from engine.layers.linear import Embedding, Linear, RMSNorm
from engine.layers.per_layer import PerLayer, PerLayerInputs, of_layer
from engine.layers.rope import RopeParams
from engine.layers.spec import BlockSpec
from engine.layers.step import LayerCache, Pass
from engine.models.text import gemma4
from engine.weights.bind import Name
from engine.weights.params import Meta, Range
from engine.weights.params import of_layer as value_of


@dataclass(frozen=True, kw_only=True)
class Params(gemma4.Params):
    n_streams: Annotated[int, Meta("altup.num_inputs", Range(STREAMS, STREAMS))] = STREAMS
    active: Annotated[int, Meta("altup.active_idx", Range(0, 0))] = 0
    sparsity: Annotated[
        tuple[float, ...],
        Meta("activation_sparsity_scale", Range(-inf, 1e3), by_layer=True),
    ] = (-inf,)

    def sparse(self, i: int) -> float | None:
        """By how many standard deviations layer i's gates must be above their mean."""
        scale = value_of(self.sparsity, i)
        return scale if isfinite(scale) else None


@dataclass(frozen=True)
class SparseFeedForward(FeedForward):
    """Only the largest gates count (Gemma 3n)."""

    def __call__(self, x: Tensor, i: int, spec: BlockSpec) -> Tensor:
        """x [E, T] -> [E, T] in layer i."""
        gate, up = self.gate(x, "ffn_gate", i), self.up(x, "ffn_up", i)
        if spec.sparse is not None:
            cut = ops.add(ops.mean(gate), ops.scale(ops.stddev(gate), spec.sparse))
            gate = ops.relu(ops.sub(gate, cut)).named("ffn_gate_sparse", i)
        mixed = spec.gated.activation(gate, up).named(spec.gated.name, i)
        return self.down(mixed, "ffn_out", i)


@dataclass(frozen=True)
class Laurel:
    """x + norm(right(left x)): a low-rank residual beside attention."""

    left: Annotated[Linear, Name("laurel_l")]
    right: Annotated[Linear, Name("laurel_r")]
    norm: Annotated[RMSNorm, Name("laurel_post_norm")]

    def __call__(self, x: Tensor, i: int, eps: float) -> Tensor:
        """x [E, T] -> [E, T] in layer i."""
        made = self.right(self.left(x, "laurel_l", i), "laurel_r", i)
        return ops.add(x, self.norm(made, eps, "laurel_normed", i)).named("laurel_out", i)


@dataclass(frozen=True)
class StreamBlock:
    """Sandwich norms within one of four streams."""

    altup: AltUp
    laurel: Laurel
    attn_norm: Annotated[RMSNorm, Name("attn_norm")]
    attn: LendingAttention
    attn_post_norm: Annotated[RMSNorm, Name("post_attention_norm")]
    ffn_norm: Annotated[RMSNorm, Name("ffn_norm")]
    ffn: SparseFeedForward
    ffn_post_norm: Annotated[RMSNorm, Name("post_ffw_norm")]
    per_layer: PerLayer

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: BlockSpec, cache: LayerCache | None, last: bool
    ) -> Tensor:
        """Streams side by side, [4 E, T] -> [4 E, T] in layer i."""
        eps, n_embd = spec.eps, x.shape[0] // STREAMS
        predicted = self.altup.predicted(x.reshape(n_embd, STREAMS, -1), i, eps)
        entered = self.attn_norm(first(predicted), eps, "attn_norm", i)
        h = self.attn(entered, i, p, spec, cache)
        flat = predicted.reshape(*x.dims)
        h, laurel, flat = pruned(p, last, h, self.laurel(entered, i, eps), flat)
        predicted = flat.reshape(n_embd, STREAMS, -1)
        h = self.attn_post_norm(h, eps, "attn_post_norm", i)
        y = ops.add(joined(h, first(predicted), i, p, spec, "attention", "attn_gated"), laurel)
        y = ops.scale(y, 1 / sqrt(2)).named("sa_out", i)
        h = self.ffn(self.ffn_norm(y, eps, "ffn_norm", i), i, spec)
        h = self.ffn_post_norm(h, eps, "ffn_post_norm", i)
        y = joined(h, y, i, p, spec, "feed_forward", "l_out")
        return self.altup.corrected(predicted, y, i, eps).reshape(*flat.dims)

    def ended(self, x: Tensor, e: Tensor, i: int, eps: float) -> Tensor:
        """Streams [4 E, T], the others with what the token gives the layer, e [P, T]."""
        streams = x.reshape(x.shape[0] // STREAMS, STREAMS, -1)
        y = ops.mul(first(streams), self.altup.correct_scale).named("altup_scaled", i)
        added = self.per_layer(y, e, i, eps).reshape(y.shape[0], 1, -1)
        rest = ops.add(others(streams), ops.repeat(added, 1, STREAMS - 1))
        head = ops.slice_(streams, 1, 0, 1)
        return ops.concat(head, rest, 1).named("streams", i).reshape(*x.dims)


@dataclass(frozen=True)
class Weights:
    embedding: Annotated[Embedding, Name("token_embd", rows=True)]
    per_layer: PerLayerInputs
    unfolding: Unfolding
    blocks: Annotated[list[StreamBlock], Name("blk")]
    norm: Annotated[RMSNorm, Name("output_norm")]
    output: Annotated[Linear, Name("output", alt="token_embd")]


class Model(gemma4.LendingDecoder[Params, Weights]):
    """Gemma 3n: each layer computes one of four streams."""

    def rope(self, i: int) -> RopeParams:
        params = self.params
        base = params.rope_base_local if params.windowed[i] else params.rope_base
        return RopeParams(params.rope_dim, base, neox=True)

    def spec(self, i: int) -> BlockSpec:
        params = self.params
        return BlockSpec(self.attention(i), self.gated, params.eps, sparse=params.sparse(i))

    def hidden(self, p: Pass, caches: Sequence[LayerCache | None]) -> Tensor:
        params, weights = self.params, self.weights
        x = p.with_pictures(self.embed(p))
        inputs = weights.per_layer(x, p, params.n_layer, params.eps)
        x = weights.unfolding.streams(x).reshape(STREAMS * params.n_embd, p.n_tokens)
        for i, cache in enumerate(caches):
            entered, x = x, self.layer(x, i, p, cache)
            (e,) = pruned(p, i == params.n_layer - 1, of_layer(inputs, i))
            x = p.site(weights.blocks[i].ended(x, e, i, params.eps), i, "residual", entered)
        streams = x.reshape(params.n_embd, STREAMS, p.n_outputs)
        return self.normed(weights.unfolding.merged(streams))
