"""Gemma 3, text: sandwich norms, q/k norms, five windowed layers to each global one, GeGLU.

Gemma Team 2025; keys and names by the GGUF spec. Norm weights in the file already include the +1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log, sqrt
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.feed_forward import FeedForward
from engine.layers.linear import Embedding, Linear, RMSNorm
from engine.layers.rope import RopeParams, Yarn
from engine.layers.step import LayerCache, Pass
from engine.models.base import CacheShape
from engine.weights.bind import Meta, Name

IGNORED: tuple[str, ...] = ()
GLOBAL_EVERY = 6
LAYERS_27B = 62


@dataclass(frozen=True)
class Params:
    """Hyperparameters by their GGUF keys."""

    n_layer: Annotated[int, Meta("block_count")]
    n_embd: Annotated[int, Meta("embedding_length")]
    n_head: Annotated[int, Meta("attention.head_count")]
    n_head_kv: Annotated[int, Meta("attention.head_count_kv")]
    window: Annotated[int, Meta("attention.sliding_window")]
    n_ctx_train: Annotated[int, Meta("context_length")]
    rms_eps: Annotated[float, Meta("attention.layer_norm_rms_epsilon")] = 1e-6
    head_dim: Annotated[int, Meta("attention.key_length")] = 256
    rope_base: Annotated[float, Meta("rope.freq_base")] = 1e6
    rope_base_local: Annotated[float, Meta("rope.freq_base_swa")] = 1e4
    rope_scaling: Annotated[str, Meta("rope.scaling.type")] = "linear"
    rope_factor: Annotated[float, Meta("rope.scaling.factor")] = 1.0
    rope_original: Annotated[int | None, Meta("rope.scaling.original_context_length")] = None
    softcap: Annotated[float, Meta("final_logit_softcapping")] = 0.0

    @property
    def scale(self) -> float:
        """What scores are multiplied by; the 27B model scales by its embedding instead."""
        if self.n_layer == LAYERS_27B:
            return 1 / sqrt(self.n_embd / self.n_head)
        return 1 / sqrt(self.head_dim)

    def is_global(self, i: int) -> bool:
        """Whether layer i sees everything."""
        return (i + 1) % GLOBAL_EVERY == 0

    def rope(self, i: int) -> RopeParams:
        """Windowed layers rotate by the local base, unscaled."""
        if not self.is_global(i):
            return RopeParams(self.head_dim, self.rope_base_local, neox=True)
        yarn = None
        if self.rope_scaling == "yarn":
            attention = 1 / (1 + 0.1 * log(self.rope_factor))
            yarn = Yarn(self.rope_original or self.n_ctx_train, attention=attention, beta_fast=64.0)
        scale = 1 / self.rope_factor
        return RopeParams(self.head_dim, self.rope_base, neox=True, scale=scale, yarn=yarn)


@dataclass(frozen=True)
class Attention:
    """q, k, v; q and k normalised per head, rotated; attention; output."""

    q: Annotated[Linear, Name("attn_q")]
    q_norm: Annotated[RMSNorm, Name("attn_q_norm")]
    k: Annotated[Linear, Name("attn_k")]
    k_norm: Annotated[RMSNorm, Name("attn_k_norm")]
    v: Annotated[Linear, Name("attn_v")]
    o: Annotated[Linear, Name("attn_output")]

    def __call__(self, x: Tensor, i: int, p: Pass, params: Params, cache: LayerCache) -> Tensor:
        """x [E, T] -> [E, T]."""
        d, n, eps, rope = params.head_dim, p.n_tokens, params.rms_eps, params.rope(i)
        q = self.q(x, "Qcur", i).reshape(d, params.n_head, n)
        k = self.k(x, "Kcur", i).reshape(d, params.n_head_kv, n)
        v = self.v(x, "Vcur", i).reshape(d, params.n_head_kv, n)
        q = p.rope(self.q_norm(q, eps, "Qcur_normed", i), rope).named("Qcur", i)
        k = p.rope(self.k_norm(k, eps, "Kcur_normed", i), rope).named("Kcur", i)
        mixed = p.attend(q, k, v, cache, params.scale).named("kqv_out", i)  # [D*H, T]
        return self.o(mixed, "attn_out", i)


@dataclass(frozen=True)
class Block:
    """Norms before and after both attention and feed-forward."""

    attn_norm: Annotated[RMSNorm, Name("attn_norm")]
    attn: Attention
    attn_post_norm: Annotated[RMSNorm, Name("post_attention_norm")]
    ffn_norm: Annotated[RMSNorm, Name("ffn_norm")]
    ffn: FeedForward
    ffn_post_norm: Annotated[RMSNorm, Name("post_ffw_norm")]


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
        self.params = params
        self.weights = weights

    def caches(self) -> list[CacheShape]:
        """Windowed layers keep their window, global ones everything."""
        p = self.params
        return [
            CacheShape(
                p.head_dim,
                p.head_dim,
                p.n_head_kv,
                None if p.is_global(i) else p.window,
                p.rope(i),
            )
            for i in range(p.n_layer)
        ]

    def forward(self, p: Pass, caches: list[LayerCache]) -> Tensor:
        """Logits [V, n_outputs]."""
        params, w, eps = self.params, self.weights, self.params.rms_eps
        x = ops.scale(w.embedding(p.tokens), sqrt(params.n_embd)).named("inp_scaled")  # [E, T]
        for i, block in enumerate(w.blocks):
            h = block.attn(block.attn_norm(x, eps, "attn_norm", i), i, p, params, caches[i])
            if i == len(w.blocks) - 1:
                h, x = p.prune(h), p.prune(x)
            h = block.attn_post_norm(h, eps, "attn_post_norm", i)
            x = ops.add(h, x).named("sa_out", i)
            h = block.ffn_norm(x, eps, "ffn_norm", i)
            h = block.ffn(h, i, ops.gelu, "ffn_geglu")
            h = block.ffn_post_norm(h, eps, "ffn_post_norm", i)
            x = ops.add(h, x).named("l_out", i)
        logits = w.output(w.norm(x, eps, "result_norm"), "result_output")
        if params.softcap > 0:
            logits = ops.softcap(logits, params.softcap).named("result_output")
        return logits
