"""Attention of a block: what is projected, normalised and turned; the step does the rest."""

from dataclasses import dataclass
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.linear import Linear, RMSNorm
from engine.layers.rope import RopeParams
from engine.layers.step import LayerCache, Pass, Temperature
from engine.weights.bind import Name


@dataclass(frozen=True)
class AttentionSpec:
    """The numbers of one layer's attention; `rope` None leaves queries and keys as they are.

    `scale` multiplies scores, `eps` belongs to the norms of queries and keys, `turned_eps` to those
    without weights that follow the turning; queries are multiplied by their `temperature` last.
    """

    n_head: int
    n_head_kv: int
    head_dim: int
    scale: float
    eps: float
    rope: RopeParams | None
    turned_eps: float | None = None
    temperature: Temperature | None = None


@dataclass(frozen=True)
class SelfAttention:
    """Grouped-query attention (Ainslie et al. 2023); biases where the file has them."""

    q: Annotated[Linear, Name("attn_q")]
    k: Annotated[Linear, Name("attn_k")]
    v: Annotated[Linear, Name("attn_v")]
    o: Annotated[Linear, Name("attn_output")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: AttentionSpec, cache: LayerCache | None
    ) -> Tensor:
        """x [E, T] -> [E, T] in layer i, which must keep cells."""
        assert cache is not None
        d, n = spec.head_dim, p.n_tokens
        q = self.q(x, "Qcur", i).reshape(d, spec.n_head, n)
        k = self.k(x, "Kcur", i).reshape(d, spec.n_head_kv, n)
        v = self.v(x, "Vcur", i).reshape(d, spec.n_head_kv, n)
        q, k = self.normed(q, k, i, spec)
        if spec.rope is not None:
            q = p.rope(q, spec.rope).named("Qcur", i)
            k = p.rope(k, spec.rope).named("Kcur", i)
        if spec.turned_eps is not None:
            q = ops.rms_norm(q, None, spec.turned_eps).named("Qcur_normed", i)
            k = ops.rms_norm(k, None, spec.turned_eps).named("Kcur_normed", i)
        if spec.temperature is not None:
            q = p.tempered(q, spec.temperature).named("Qcur_scaled", i)
        mixed = p.attend(q, k, v, cache, spec.scale).named("kqv_out", i)  # [D*H, T]
        return self.o(p.by_head(mixed, i, spec.n_head), "attn_out", i)

    def normed(self, q: Tensor, k: Tensor, i: int, spec: AttentionSpec) -> tuple[Tensor, Tensor]:
        """q [D, H, T] and k [D, K, T] before they are turned; here as they are."""
        return q, k


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
