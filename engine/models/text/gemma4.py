"""Gemma 4: E2B, E4B, 26B-A4B, 31B; layers of two head sizes, per-layer embeddings, experts.

Gemma Team 2026; tensor names and keys by the GGUF spec. Norm weights are as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Annotated, TypeVar

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.blocks import SandwichBlock, joined, pruned
from engine.layers.experts import Experts
from engine.layers.feed_forward import FeedForward
from engine.layers.lending import LendingAttention
from engine.layers.linear import Embedding, Linear, RMSNorm
from engine.layers.per_layer import PerLayer, PerLayerInputs, of_layer
from engine.layers.rope import RopeParams
from engine.layers.spec import GEGLU, AttentionSpec, BlockSpec
from engine.layers.step import LayerCache, Pass
from engine.models.constants import Constant, rope_factors
from engine.models.decoder import HEAD, ROPE_BASE, Decoder, DecoderWeights
from engine.models.kept import Borrowed, Cells, Kept
from engine.models.routed import SOME, RoutedParams
from engine.weights.bind import Name
from engine.weights.params import EPSILON, WIDTH, Meta, Range


@dataclass(frozen=True, kw_only=True)
class Params(RoutedParams):
    """Hyperparameters by their GGUF keys; `_local` ones are of windowed layers."""

    eps: Annotated[float, Meta("attention.layer_norm_rms_epsilon", EPSILON)] = 1e-6
    rope_base: Annotated[float, Meta("rope.freq_base", ROPE_BASE)] = 1e6
    rope_base_local: Annotated[float, Meta("rope.freq_base_swa", ROPE_BASE)] = 1e4
    key_length_local: Annotated[int, Meta("attention.key_length_swa", HEAD)] = 0
    n_rot_local: Annotated[int, Meta("rope.dimension_count_swa", HEAD)] = 0
    window: Annotated[int, Meta("attention.sliding_window", Range(1, (1 << 31) - 1))]
    pattern: Annotated[
        tuple[bool, ...],
        Meta("attention.sliding_window_pattern", Range(0, 1), by_layer=True),
    ]
    n_shared: Annotated[int, Meta("attention.shared_kv_layers", SOME)] = 0
    n_per_layer: Annotated[int, Meta("embedding_length_per_layer_input", Range(0, WIDTH.high))] = 0
    softcap: Annotated[float, Meta("final_logit_softcapping", Range(0, 1e6))] = 0.0

    @property
    def windowed(self) -> list[bool]:
        """Which layers are."""
        return [bool(of) for of in self.pattern] * (self.n_layer if len(self.pattern) == 1 else 1)

    @property
    def first_shared(self) -> int:
        """From which layer on keys and values are an earlier one's."""
        return max(0, self.n_layer - self.n_shared)

    def lender(self, i: int) -> int | None:
        """Whose keys and values layer i sees: of the layers that have some the last of its kind.
        None where it has its own.
        """
        if i < self.first_shared:
            return None
        alike = [j for j in range(self.first_shared) if self.windowed[j] == self.windowed[i]]
        return alike[-1]

    def head(self, i: int) -> int:
        """Channels of a head of layer i."""
        local = self.windowed[i] and self.key_length_local
        return local or self.head_dim

    def problem(self) -> str:
        if self.n_shared and not set(self.windowed) <= set(self.windowed[: self.first_shared]):
            kinds = "global and windowed ones, of which none is left to borrow from"
            return (
                f"attention.shared_kv_layers is {self.n_shared} of {self.n_layer} layers, {kinds}"
            )
        if self.n_rot_local % 2 or self.n_rot_local > (self.key_length_local or self.head_dim):
            return f"rope.dimension_count_swa is {self.n_rot_local}; expected an even number"
        return super().problem()

    def constants(self) -> Sequence[Constant]:
        return [rope_factors(self.rope_dim)]


@dataclass(frozen=True)
class BesideExperts:
    """Experts beside a dense feed-forward, each normalised; the router sees what neither does."""

    experts: Experts
    seen: Annotated[Tensor, Name("ffn_gate_inp.scale")]
    before: Annotated[RMSNorm, Name("pre_ffw_norm_2")]
    dense_norm: Annotated[RMSNorm, Name("post_ffw_norm_1")]
    experts_norm: Annotated[RMSNorm, Name("post_ffw_norm_2")]

    def __call__(self, dense: Tensor, x: Tensor, i: int, spec: BlockSpec) -> Tensor:
        """The contribution to the residual, [E, T]: `dense` is the dense branch's result for x [E,
        T].
        """
        seen = ops.rms_norm(x, self.seen, spec.eps)
        seen = ops.scale(seen, 1 / sqrt(x.shape[0])).named("ffn_moe_seen", i)
        entered = self.before(x, spec.eps, "ffn_norm_2", i)
        made = self.experts.routed(entered, seen, i, spec)
        made = self.experts_norm(made, spec.eps, "ffn_post_norm_2", i)
        return ops.add(self.dense_norm(dense, spec.eps, "ffn_post_norm_1", i), made)


@dataclass(frozen=True)
class Gemma4Block(SandwichBlock[LendingAttention, FeedForward]):
    """Sandwich norms; in some models experts, in some what the token gives each layer."""

    beside: BesideExperts | None
    per_layer: PerLayer | None
    scale: Annotated[Tensor | None, Name("layer_output_scale.weight")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: BlockSpec, cache: LayerCache | None, last: bool
    ) -> Tensor:
        h = self.attn(self.attn_norm(x, spec.eps, "attn_norm", i), i, p, spec, cache)
        h, x = pruned(p, last, h, x)
        h = self.attn_post_norm(h, spec.eps, "attn_post_norm", i)
        x = joined(h, x, i, p, spec, "attention", "sa_out")
        h = self.ffn(self.ffn_norm(x, spec.eps, "ffn_norm", i), i, spec)
        if self.beside is not None:
            h = self.beside(h, x, i, spec)
        h = self.ffn_post_norm(h, spec.eps, "ffn_post_norm", i)
        return joined(h, x, i, p, spec, "feed_forward", "l_out")


@dataclass(frozen=True)
class Weights:
    embedding: Annotated[Embedding, Name("token_embd", rows=True)]
    per_layer: PerLayerInputs | None
    blocks: Annotated[list[Gemma4Block], Name("blk")]
    norm: Annotated[RMSNorm, Name("output_norm")]
    output: Annotated[Linear, Name("output", alt="token_embd")]


P = TypeVar("P", bound=Params)
W = TypeVar("W", bound=DecoderWeights)


class LendingDecoder(Decoder[P, W]):
    """Layers differ in what they see, how they turn, the size of heads, and whose keys they see."""

    gated = GEGLU

    def attention(self, i: int) -> AttentionSpec:
        params = self.params
        heads = (params.n_head(i), params.n_head_kv(i), params.head(i))
        return AttentionSpec(*heads, scale=1.0, eps=params.eps, rope=self.rope(i))

    def window(self, i: int) -> int | None:
        return self.params.window if self.params.windowed[i] else None

    def kept(self) -> Sequence[Kept]:
        lenders = [self.params.lender(i) for i in range(self.params.n_layer)]
        return [self.cells(i) if j is None else Borrowed(j) for i, j in enumerate(lenders)]

    def embed(self, p: Pass) -> Tensor:
        return ops.scale(super().embed(p), sqrt(self.params.n_embd)).named("inp_scaled")

    def logits(self, x: Tensor) -> Tensor:
        logits = super().logits(x)
        if self.params.softcap > 0:
            logits = ops.softcap(logits, self.params.softcap).named("result_output")
        return logits


class Model(LendingDecoder[Params, Weights]):
    """In some models experts, in some what the token gives each layer."""

    @property
    def joins_pictures(self) -> bool:
        """In windowed layers of the large models, which have no per-layer embeddings."""
        return not self.params.n_per_layer

    def cells(self, i: int) -> Cells:
        return replace(super().cells(i), ahead=self.params.windowed[i])

    def rope(self, i: int) -> RopeParams:
        params = self.params
        if not params.windowed[i]:
            return self.turned
        return RopeParams(params.n_rot_local or params.head(i), params.rope_base_local, neox=True)

    def spec(self, i: int) -> BlockSpec:
        params = self.params
        return BlockSpec(self.attention(i), self.gated, params.eps, route=params.route(i))

    def hidden(self, p: Pass, caches: Sequence[LayerCache | None]) -> Tensor:
        params, per_layer = self.params, self.weights.per_layer
        x, inputs = p.with_pictures(self.embed(p)), None
        if per_layer is not None:
            inputs = per_layer(x, p, params.n_layer, params.eps)
        for i, cache in enumerate(caches):
            entered, x = x, self.layer(x, i, p, cache)
            x = p.site(self._ended(x, inputs, i, p), i, "residual", entered)
        return self.normed(x)

    def _ended(self, x: Tensor, inputs: Tensor | None, i: int, p: Pass) -> Tensor:
        """Add the token's per-layer input, and scale the layer."""
        block, params = self.weights.blocks[i], self.params
        if block.per_layer is not None and inputs is not None:
            (e,) = pruned(p, i == params.n_layer - 1, of_layer(inputs, i))
            x = ops.add(x, block.per_layer(x, e, i, params.eps)).named("per_layer_added", i)
        return x if block.scale is None else ops.mul(x, block.scale).named("l_scaled", i)
