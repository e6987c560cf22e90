"""Multi-head latent attention: keys and values of all heads come of one latent per token.

DeepSeek-AI 2024 (DeepSeek-V2), with the matrices that would make keys and values of the latent
multiplied into queries and into what is mixed: heads attend to the latent itself. Files of MiniCPM
3, and of DeepSeek from before 2025, have these matrices in one.
"""

from dataclasses import dataclass, replace
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.linear import Linear, RMSNorm
from engine.layers.spec import BlockSpec
from engine.layers.step import LayerCache, Pass
from engine.weights.bind import Name

LATENT_EPS = 1e-6
"""Of the norms within `ExpandedLatentAttention`, whatever that of the others is."""


@dataclass(frozen=True)
class WholeQueries:
    """By one matrix."""

    q: Annotated[Linear, Name("attn_q")]

    def __call__(self, x: Tensor, i: int, spec: BlockSpec) -> Tensor:
        """x [E, T] -> [H * D, T] in layer i."""
        return self.q(x, "q", i)


@dataclass(frozen=True)
class LowRankQueries:
    """By two, with a norm between them."""

    a: Annotated[Linear, Name("attn_q_a")]
    norm: Annotated[RMSNorm, Name("attn_q_a_norm")]
    b: Annotated[Linear, Name("attn_q_b")]

    def __call__(self, x: Tensor, i: int, spec: BlockSpec) -> Tensor:
        """x [E, T] -> [H * D, T] in layer i."""
        return self.b(self.norm(self.a(x, "q_a", i), spec.eps, "q_a_norm", i), "q", i)


@dataclass(frozen=True)
class LatentAttention:
    """A token's row [k_pe | c] is its key for all heads, and c [R] its value; r channels
    turn where there is a rope.

    `k_b` [D - r, R, H] takes what of a query does not turn to the latent, `v_b` [R, Dv, H] takes
    mixed latents to the heads' values.
    """

    queries: LowRankQueries | WholeQueries
    row: Annotated[Linear, Name("attn_kv_a_mqa")]
    row_norm: Annotated[RMSNorm, Name("attn_kv_a_norm")]
    k_b: Annotated[Tensor, Name("attn_k_b.weight")]
    v_b: Annotated[Tensor, Name("attn_v_b.weight")]
    o: Annotated[Linear, Name("attn_output")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, block: BlockSpec, cache: LayerCache | None
    ) -> Tensor:
        """x [E, T] -> [E, T] in layer i, which must keep latents."""
        assert cache is not None
        spec, n = block.attention, p.n_tokens
        heads, (plain, rank) = spec.n_head, self.k_b.shape[:2]
        row = self.row(x, "kv_cmpr_pe", i)  # [R + r, T]
        turned = row.shape[0] - rank
        q = self.queries(x, i, block).reshape(plain + turned, heads, n)
        if spec.temperature is not None:
            q = p.tempered(q, spec.temperature).named("Qcur_scaled", i)
        q_plain, q_turned = ops.chunk_sections(q, 0, (plain, turned))
        c, k_turned = ops.chunk_sections(row.reshape(rank + turned, 1, n), 0, (rank, turned))
        c = self.row_norm(c, block.eps, "kv_cmpr", i)
        if spec.rope is not None:
            q_turned = p.rope(q_turned, spec.rope).named("q_pe", i)
            k_turned = p.rope(k_turned, spec.rope).named("k_pe", i)
        absorbed = ops.matmul(self.k_b, q_plain.permute(0, 2, 1)).named("q_nope_absorbed", i)
        q = ops.concat(q_turned, absorbed.permute(0, 2, 1), 0).named("Qcur", i)  # [r + R, H, T]
        k = ops.concat(k_turned, c, 0).named("Kcur", i)
        latents = p.attend(q, k, None, cache, spec.scale).reshape(rank, heads, n)
        mixed = ops.matmul(self.v_b, latents.permute(0, 2, 1))  # [Dv, T, H]
        mixed = ops.contiguous(mixed.permute(0, 2, 1)).reshape(mixed.shape[0] * heads, n)
        return self.o(p.site(mixed.named("kqv_out", i), i, "heads"), "attn_out", i)


@dataclass(frozen=True)
class ExpandedLatentAttention:
    """Keys and values of each head are made of the latent and kept.

    `kv_b` [R, (D - r + Dv) * H] has each head's rows of keys, then of values.
    """

    queries: LowRankQueries | WholeQueries
    row: Annotated[Linear, Name("attn_kv_a_mqa")]
    row_norm: Annotated[RMSNorm, Name("attn_kv_a_norm")]
    kv_b: Annotated[Linear, Name("attn_kv_b")]
    o: Annotated[Linear, Name("attn_output")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, block: BlockSpec, cache: LayerCache | None
    ) -> Tensor:
        """x [E, T] -> [E, T] in layer i."""
        spec, n = block.attention, p.n_tokens
        assert cache is not None
        assert spec.rope is not None
        turned, heads = spec.rope.n_rot, spec.n_head
        plain, inner = spec.head_dim - turned, replace(block, eps=LATENT_EPS)
        q = self.queries(x, i, inner).reshape(spec.head_dim, heads, n)
        q_plain, q_turned = ops.chunk_sections(q, 0, (plain, turned))
        row = self.row(x, "kv_cmpr_pe", i)  # [R + r, T]
        rank = row.shape[0] - turned
        c, k_turned = ops.chunk_sections(row.reshape(rank + turned, 1, n), 0, (rank, turned))
        c = self.row_norm(c, inner.eps, "kv_cmpr", i).reshape(rank, n)
        both = self.kv_b(c, "kv", i).reshape(-1, heads, n)
        k_plain, v = ops.chunk_sections(both, 0, (plain, both.shape[0] - plain))
        q_turned = p.rope(q_turned, spec.rope).named("q_pe", i)
        k_turned = p.rope(k_turned, spec.rope).named("k_pe", i)
        q = ops.concat(q_turned, q_plain, 0).named("Qcur", i)
        k = ops.concat(ops.repeat(k_turned, 1, heads), k_plain, 0).named("Kcur", i)
        mixed = p.attend(q, k, v.named("Vcur", i), cache, spec.scale).named("kqv_out", i)
        return self.o(p.site(mixed, i, "heads"), "attn_out", i)
