"""Attention of a block: what is projected, normalised and turned; the step does the rest.

What an architecture's attention has besides is a subclass that adds its weights and overrides one
of `normed`, `turned`, `sink` and `gated`; numbers stand in the spec.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.linear import LayerNorm, Linear, RMSNorm, heads_of, weightless
from engine.layers.rope import RopeParams
from engine.layers.spec import AttentionSpec, BlockSpec
from engine.layers.step import LayerCache, Pass
from engine.weights.bind import Name

Heads = tuple[Tensor, Tensor, Tensor]
"""Queries [D, H, T], keys and values [D, K, T]."""


def bounded(heads: Heads, limit: float) -> Heads:
    """Each within [-limit, limit]."""
    q, k, v = (ops.clamp(t, -limit, limit) for t in heads)
    return q, k, v


@dataclass(frozen=True)
class SplitProjection:
    """A matrix each for queries, keys and values; biases where the file has them."""

    q: Annotated[Linear, Name("attn_q")]
    k: Annotated[Linear, Name("attn_k")]
    v: Annotated[Linear, Name("attn_v")]

    def __call__(self, x: Tensor, i: int, spec: AttentionSpec) -> Heads:
        """x [E, T] in layer i."""
        d, n = spec.head_dim, x.shape[1]
        q = self.q(x, "Qcur", i).reshape(-1, spec.n_head, n)
        k = self.k(x, "Kcur", i).reshape(d, spec.n_head_kv, n)
        return q, k, self.v(x, "Vcur", i).reshape(-1, spec.n_head_kv, n)


@dataclass(frozen=True)
class FusedProjection:
    """One matrix, whose rows are those of queries, of keys, then of values, which may have another
    size.
    """

    qkv: Annotated[Linear, Name("attn_qkv")]

    def __call__(self, x: Tensor, i: int, spec: AttentionSpec) -> Heads:
        """x [E, T] in layer i."""
        d, n = spec.head_dim, x.shape[1]
        counts = (spec.n_head, spec.n_head_kv, spec.n_head_kv)
        whole = self.qkv(x, "wqkv", i)
        values = whole.shape[0] - d * (spec.n_head + spec.n_head_kv)
        if values == d * spec.n_head_kv:
            q, k, v = ops.chunk_sections(whole.reshape(d, sum(counts), n), 1, counts)
        else:
            parts = ops.chunk_sections(whole, 0, (d * spec.n_head, d * spec.n_head_kv, values))
            q, k, v = map(heads_of, parts, (d, d, values // spec.n_head_kv))
        return q.named("Qcur", i), k.named("Kcur", i), v.named("Vcur", i)


@dataclass(frozen=True)
class SelfAttention:
    """Grouped-query attention (Ainslie et al. 2023)."""

    qkv: SplitProjection | FusedProjection
    o: Annotated[Linear, Name("attn_output")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, block: BlockSpec, cache: LayerCache | None
    ) -> Tensor:
        """x [E, T] -> [E, T] in layer i; without cells tokens also see those behind them."""
        spec = block.attention
        q, k, v = self.qkv(x, i, spec)
        mixed = self.gated(self.mixed((q, k, v), i, p, spec, cache), x, i)  # [D*H, T]
        return self.o(p.site(mixed, i, "heads"), "attn_out", i)

    def mixed(
        self, heads: Heads, i: int, p: Pass, spec: AttentionSpec, cache: LayerCache | None
    ) -> Tensor:
        """Results of the heads, [D*H, T]."""
        if spec.clamp:
            heads = bounded(heads, spec.clamp)
        q, k, v = heads
        q, k = self.normed(q, k, i, spec)
        if spec.value_eps is not None:
            v = weightless(v, spec.value_eps, "Vcur_normed", i)
        if spec.value_scale != 1.0:
            v = ops.scale(v, spec.value_scale).named("Vcur_scaled", i)
        if spec.bare_eps is not None:
            q = weightless(q, spec.bare_eps, "Qcur_normed", i)
            k = weightless(k, spec.bare_eps, "Kcur_normed", i)
        if spec.temperature is not None:
            q = p.tempered(q, spec.temperature).named("Qcur_scaled", i)
        if spec.rope is not None:
            q, k = self.turned(q, k, i, p, spec, spec.rope)
        if cache is None:
            mixed = p.attend_all(q, k, v, spec.scale, spec.reach, spec.alibi)
        else:
            new_k, new_v = (None, None) if cache.borrowed else (k, v)
            numbers = (spec.scale, spec.softcap, self.sink(), spec.alibi)
            mixed = p.attend(q, new_k, new_v, cache, *numbers)
        return mixed.named("kqv_out", i)

    def normed(self, q: Tensor, k: Tensor, i: int, spec: AttentionSpec) -> tuple[Tensor, Tensor]:
        """q [D, H, T] and k [D, K, T] before they are turned; here as they are."""
        return q, k

    def turned(
        self, q: Tensor, k: Tensor, i: int, p: Pass, spec: AttentionSpec, rope: RopeParams
    ) -> tuple[Tensor, Tensor]:
        """q [D, H, T] and k [D, K, T] by their positions."""
        return p.rope(q, rope).named("Qcur", i), p.rope(k, rope).named("Kcur", i)

    def sink(self) -> Tensor | None:
        """A score f32 [H] that joins each head's softmax and mixes in nothing."""
        return None

    def gated(self, mixed: Tensor, x: Tensor, i: int) -> Tensor:
        """Gate the heads' results [D*H, T] by the input [E, T]; unchanged by default."""
        return mixed


@dataclass(frozen=True)
class NormedAttention(SelfAttention):
    """Queries and keys are normalised per head before they are turned (Henry et al. 2020)."""

    q_norm: Annotated[RMSNorm, Name("attn_q_norm")]
    k_norm: Annotated[RMSNorm, Name("attn_k_norm")]

    def normed(self, q: Tensor, k: Tensor, i: int, spec: AttentionSpec) -> tuple[Tensor, Tensor]:
        return (
            self.q_norm(q, spec.eps, "Qcur_normed", i),
            self.k_norm(k, spec.eps, "Kcur_normed", i),
        )


@dataclass(frozen=True)
class OwnNormedAttention(NormedAttention):
    """The same with weights [D, H] and [D, K]: each head has its own (PLaMo 2)."""

    def normed(self, q: Tensor, k: Tensor, i: int, spec: AttentionSpec) -> tuple[Tensor, Tensor]:
        q, k = (weightless(t, spec.eps, "") for t in (q, k))
        return (
            ops.mul(q, self.q_norm.weight).named("Qcur_normed", i),
            ops.mul(k, self.k_norm.weight).named("Kcur_normed", i),
        )


@dataclass(frozen=True)
class GatedQueryAttention(NormedAttention):
    """Behind each head's queries the product has a gate of what the head gives (Qwen3-Next)."""

    def __call__(
        self, x: Tensor, i: int, p: Pass, block: BlockSpec, cache: LayerCache | None
    ) -> Tensor:
        spec = block.attention
        both, k, v = self.qkv(x, i, spec)
        q, gate = ops.chunk_sections(both, 0, (spec.head_dim, spec.head_dim))
        mixed = self.mixed((q.named("Qcur", i), k, v), i, p, spec, cache)
        factor = ops.sigmoid(gate).named("gate_sigmoid", i).reshape(*mixed.dims)
        mixed = ops.mul(mixed, factor).named("attn_gated", i)
        return self.o(p.site(mixed, i, "heads"), "attn_out", i)


@dataclass(frozen=True)
class GatedAttention(NormedAttention):
    """Attention whose heads' results are multiplied by a sigmoid of the input (Muse Glimmer)."""

    gate: Annotated[Linear, Name("attn_gate")]

    def gated(self, mixed: Tensor, x: Tensor, i: int) -> Tensor:
        return ops.mul(mixed, ops.sigmoid(self.gate(x, "attn_gate", i))).named("attn_gated", i)


@dataclass(frozen=True)
class WidthNormedAttention(NormedAttention):
    """All heads together are normalised, with weights [H*D] and [K*D] (OLMo 2)."""

    def normed(self, q: Tensor, k: Tensor, i: int, spec: AttentionSpec) -> tuple[Tensor, Tensor]:
        wide_q = ops.contiguous(q, q.shape[0] * q.shape[1], -1)
        wide_k = ops.contiguous(k, k.shape[0] * k.shape[1], -1)
        wide_q, wide_k = super().normed(wide_q, wide_k, i, spec)
        return wide_q.reshape(*q.shape), wide_k.reshape(*k.shape)


@dataclass(frozen=True)
class TurnedNormedAttention(SelfAttention):
    """Queries and keys are normalised per head behind their turning (Hunyuan).

    The cache keeps keys without the norm's weights, which queries carry in their place: so a shift
    of the context can turn them further.
    """

    q_norm: Annotated[RMSNorm, Name("attn_q_norm")]
    k_norm: Annotated[RMSNorm, Name("attn_k_norm")]

    def turned(
        self, q: Tensor, k: Tensor, i: int, p: Pass, spec: AttentionSpec, rope: RopeParams
    ) -> tuple[Tensor, Tensor]:
        q, k = super().turned(q, k, i, p, spec, rope)
        q = self.q_norm(q, spec.eps, "Qcur_normed", i)
        return (
            ops.mul(q, self.k_norm.weight).named("Qcur_scaled", i),
            weightless(k, spec.eps, "Kcur_normed", i),
        )


@dataclass(frozen=True)
class LayerNormedAttention(SelfAttention):
    """Where the file has weights [D, H] and [D, K], each head is normalised less its mean and has
    its own (Command R+, StableLM 2 12B).
    """

    q_norm: Annotated[LayerNorm | None, Name("attn_q_norm")]
    k_norm: Annotated[LayerNorm | None, Name("attn_k_norm")]

    def normed(self, q: Tensor, k: Tensor, i: int, spec: AttentionSpec) -> tuple[Tensor, Tensor]:
        if self.q_norm is None or self.k_norm is None:
            return q, k
        q, k = (ops.layer_norm(t, None, None, spec.eps) for t in (q, k))
        return (
            ops.mul(q, self.q_norm.weight).named("Qcur_normed", i),
            ops.mul(k, self.k_norm.weight).named("Kcur_normed", i),
        )


@dataclass(frozen=True)
class RelativeAttention(SelfAttention):
    """Attention whose scores have a bias by distance; layers without a `table` [H, buckets] share
    the first layer's (T5).
    """

    o: Annotated[Linear, Name("attn_o")]
    table: Annotated[Tensor | None, Name("attn_rel_b.weight")]

    def mixed(
        self, heads: Heads, i: int, p: Pass, spec: AttentionSpec, cache: LayerCache | None
    ) -> Tensor:
        bias = p.first_bias if self.table is None else p.relative_bias(self.table, cache)
        if i == 0:
            p.first_bias = bias
        if cache is None:
            mixed = p.attend_all(*heads, spec.scale, None, bias=bias)
        else:
            mixed = p.attend(*heads, cache, spec.scale, bias=bias)
        return mixed.named("kqv_out", i)


@dataclass(frozen=True)
class CrossAttention:
    """Attention of tokens to the rows of an encoder, all of which they see (T5)."""

    q: Annotated[Linear, Name("cross_attn_q")]
    k: Annotated[Linear, Name("cross_attn_k")]
    v: Annotated[Linear, Name("cross_attn_v")]
    o: Annotated[Linear, Name("cross_attn_o")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: AttentionSpec, cache: LayerCache
    ) -> Tensor:
        """x [E, T] -> [E, T] in layer i."""
        d = spec.head_dim

        def encoded(rows: Tensor) -> tuple[Tensor, Tensor]:
            k = self.k(rows, "cross_k", i).reshape(d, spec.n_head_kv, rows.shape[1])
            return k, self.v(rows, "cross_v", i).reshape(d, spec.n_head_kv, rows.shape[1])

        q = self.q(x, "cross_q", i).reshape(d, spec.n_head, x.shape[1])
        mixed = p.cross(q, encoded, cache, spec.scale, x.shape[0]).named("cross_kqv_out", i)
        return self.o(mixed, "cross_attn_out", i)
