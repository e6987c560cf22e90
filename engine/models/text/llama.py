"""Llama 1 to 3.2, SmolLM2, Mistral 7B: RMS norms, grouped-query attention, SwiGLU.

Touvron et al. 2023; tensor names and keys by the GGUF spec. Rope pairs are (2i, 2i+1): the
converter permutes q and k.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Annotated

from engine.errors import UnsupportedModel
from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.feed_forward import FeedForward
from engine.layers.linear import Embedding, Linear, RMSNorm
from engine.layers.rope import RopeParams, Yarn
from engine.layers.step import LayerCache, Pass
from engine.models.base import CacheShape
from engine.weights.bind import Meta, Name

IGNORED = ("rope_freqs.weight",)


@dataclass(frozen=True)
class Params:
    """Hyperparameters by their GGUF keys."""

    n_layer: Annotated[int, Meta("block_count")]
    n_embd: Annotated[int, Meta("embedding_length")]
    n_head: Annotated[int, Meta("attention.head_count")]
    rms_eps: Annotated[float, Meta("attention.layer_norm_rms_epsilon")]
    n_ctx_train: Annotated[int, Meta("context_length")]
    n_head_kv: Annotated[int | None, Meta("attention.head_count_kv")] = None
    key_length: Annotated[int | None, Meta("attention.key_length")] = None
    n_rot: Annotated[int | None, Meta("rope.dimension_count")] = None
    rope_base: Annotated[float, Meta("rope.freq_base")] = 10000.0
    rope_scaling: Annotated[str, Meta("rope.scaling.type")] = "none"
    rope_factor: Annotated[float, Meta("rope.scaling.factor")] = 1.0
    rope_original: Annotated[int | None, Meta("rope.scaling.original_context_length")] = None
    n_expert: Annotated[int, Meta("expert_count")] = 0

    @property
    def head_dim(self) -> int:
        return self.key_length or self.n_embd // self.n_head

    @property
    def kv_heads(self) -> int:
        return self.n_head_kv or self.n_head

    def rope(self, factors: tuple[float, ...] | None) -> RopeParams:
        """Every layer's rope; `factors` from `rope_freqs.weight` divide the frequencies."""
        yarn = None
        if self.rope_scaling == "yarn":
            yarn = Yarn(self.rope_original or self.n_ctx_train)
        return RopeParams(
            self.n_rot or self.head_dim,
            self.rope_base,
            neox=False,
            scale=1.0 if self.rope_scaling == "none" else 1.0 / self.rope_factor,
            factors=factors,
            yarn=yarn,
        )


@dataclass(frozen=True)
class Attention:
    """q, k, v, then attention over the cache, then the output projection."""

    q: Annotated[Linear, Name("attn_q")]
    k: Annotated[Linear, Name("attn_k")]
    v: Annotated[Linear, Name("attn_v")]
    o: Annotated[Linear, Name("attn_output")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, params: Params, rope: RopeParams, cache: LayerCache
    ) -> Tensor:
        """x [E, T] -> [E, T]."""
        d, n = params.head_dim, p.n_tokens
        q = self.q(x, "Qcur", i).reshape(d, params.n_head, n)
        k = self.k(x, "Kcur", i).reshape(d, params.kv_heads, n)
        v = self.v(x, "Vcur", i).reshape(d, params.kv_heads, n)
        q = p.rope(q, rope).named("Qcur", i)
        k = p.rope(k, rope).named("Kcur", i)
        mixed = p.attend(q, k, v, cache, 1 / sqrt(d)).named("kqv_out", i)  # [D*H, T]
        return self.o(mixed, "attn_out", i)


@dataclass(frozen=True)
class Block:
    """Pre-norm attention and feed-forward, each added to the residual."""

    attn_norm: Annotated[RMSNorm, Name("attn_norm")]
    attn: Attention
    ffn_norm: Annotated[RMSNorm, Name("ffn_norm")]
    ffn: FeedForward


@dataclass(frozen=True)
class Weights:
    """The whole model's tensors."""

    embedding: Annotated[Embedding, Name("token_embd")]
    blocks: Annotated[list[Block], Name("blk")]
    norm: Annotated[RMSNorm, Name("output_norm")]
    output: Annotated[Linear, Name("output", alt="token_embd")]


class Model:
    """Builds the forward pass."""

    def __init__(self, params: Params, weights: Weights, constants: Mapping[str, object]) -> None:
        if params.n_expert:
            raise UnsupportedModel("llama with experts", str(params.n_expert), ["dense models"])
        self.params = params
        self.weights = weights
        factors = constants.get("rope_freqs.weight")
        self._rope = params.rope(tuple(factors) if isinstance(factors, list) else None)

    def caches(self) -> list[CacheShape]:
        """One full cache for every layer."""
        d, heads = self.params.head_dim, self.params.kv_heads
        return [CacheShape(d, d, heads, None, self._rope)] * self.params.n_layer

    def forward(self, p: Pass, caches: list[LayerCache]) -> Tensor:
        """Logits [V, n_outputs]."""
        params, w = self.params, self.weights
        x = w.embedding(p.tokens)  # [E, T]
        for i, block in enumerate(w.blocks):
            h = block.attn_norm(x, params.rms_eps, "attn_norm", i)
            h = block.attn(h, i, p, params, self._rope, caches[i])
            if i == len(w.blocks) - 1:
                h, x = p.prune(h), p.prune(x)
            x = ops.add(h, x).named("ffn_inp", i)
            h = block.ffn_norm(x, params.rms_eps, "ffn_norm", i)
            x = ops.add(block.ffn(h, i, ops.silu, "ffn_swiglu"), x).named("l_out", i)
        x = w.norm(x, params.rms_eps, "result_norm")
        return w.output(x, "result_output")
