"""Attention of layers that lend their keys and values, and of those that borrow them."""

from dataclasses import dataclass
from typing import Annotated

from engine.errors import TensorMismatch
from engine.graph.tensor import Tensor
from engine.layers.linear import Linear, RMSNorm, weightless
from engine.layers.spec import BlockSpec
from engine.layers.step import LayerCache, Pass
from engine.weights.bind import Name


@dataclass(frozen=True)
class LendingAttention:
    """Queries, keys and values are normalised per head, values without weights. Where the file has
    none for values, they are what keys are before their norm; where it has none for keys either,
    or they are not used, those of an earlier layer are seen (Gemma 3n and 4).
    """

    q: Annotated[Linear, Name("attn_q")]
    k: Annotated[Linear | None, Name("attn_k")]
    v: Annotated[Linear | None, Name("attn_v")]
    o: Annotated[Linear, Name("attn_output")]
    q_norm: Annotated[RMSNorm, Name("attn_q_norm")]
    k_norm: Annotated[RMSNorm | None, Name("attn_k_norm")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, block: BlockSpec, cache: LayerCache | None
    ) -> Tensor:
        """x [E, T] -> [E, T] in layer i."""
        assert cache is not None
        spec = block.attention
        q = self.q(x, "Qcur", i).reshape(spec.head_dim, spec.n_head, x.shape[1])
        q = self.q_norm(q, spec.eps, "Qcur_normed", i)
        if spec.rope is not None:
            q = p.rope(q, spec.rope).named("Qcur", i)
        k, v = (None, None) if cache.borrowed else self._made(x, i, p, block)
        mixed = p.attend(q, k, v, cache, spec.scale, spec.softcap).named("kqv_out", i)
        return self.o(p.site(mixed, i, "heads"), "attn_out", i)

    def _made(self, x: Tensor, i: int, p: Pass, block: BlockSpec) -> tuple[Tensor, Tensor]:
        """Keys and values [D, K, T]. Raises TensorMismatch for a layer that has none of its own."""
        spec = block.attention
        if self.k is None or self.k_norm is None:
            names = {"attn_k": self.k, "attn_k_norm": self.k_norm}
            missing = [f"blk.{i}.{name}.weight" for name, found in names.items() if found is None]
            raise TensorMismatch("a layer that borrows no keys", missing, ())
        shape = (spec.head_dim, spec.n_head_kv, x.shape[1])
        made = self.k(x, "Kcur", i).reshape(*shape)
        v = made if self.v is None else self.v(x, "Vcur", i).reshape(*shape)
        k = self.k_norm(made, spec.eps, "Kcur_normed", i)
        if spec.rope is not None:
            k = p.rope(k, spec.rope).named("Kcur", i)
        return k, weightless(v, spec.eps, "Vcur_normed", i)
