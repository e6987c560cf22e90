"""Falcon-H1: attention and Mamba-2 side by side in every layer; NeoX pairs.

Zuo et al. 2025; tensor names and keys by the GGUF spec. The multipliers are in the file's weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from engine.graph.tensor import Tensor
from engine.layers.attention import SelfAttention
from engine.layers.blocks import joined, pruned
from engine.layers.feed_forward import FeedForward
from engine.layers.linear import RMSNorm
from engine.layers.recurrent import Mamba2
from engine.layers.spec import BlockSpec
from engine.layers.step import LayerCache, Pass
from engine.models.decoder import PlainWeights
from engine.models.kept import Both, Kept
from engine.models.recurrent import RecurrentDecoder, RecurrentParams
from engine.weights.bind import Name

Params = RecurrentParams


@dataclass(frozen=True)
class HybridBlock:
    """h = norm x; x += A(h) + M(h); x += F(norm x)."""

    attn_norm: Annotated[RMSNorm, Name("attn_norm")]
    attn: SelfAttention
    mamba: Mamba2
    ffn_norm: Annotated[Tensor, Name("ffn_norm.weight", alt="ffn_norm")]
    ffn: FeedForward

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: BlockSpec, cache: LayerCache | None, last: bool
    ) -> Tensor:
        """x [E, T] -> [E, T] in layer i; in the `last` one only the wanted [E, n_outputs]."""
        entered = self.attn_norm(x, spec.eps, "attn_norm", i)
        h = self.attn(entered, i, p, spec, cache)
        more = self.mamba(entered, i, p, spec, cache)
        h, more, x = pruned(p, last, h, more, x)
        x = joined(h, x, i, p, spec, "attention", "sa_out")
        x = joined(more, x, i, p, spec, "attention", "ffn_inp")
        h = self.ffn(RMSNorm(self.ffn_norm)(x, spec.eps, "ffn_norm", i), i, spec)
        return joined(h, x, i, p, spec, "feed_forward", "l_out")


Weights = PlainWeights[HybridBlock]


class Model(RecurrentDecoder[Params, Weights]):
    def state(self, i: int) -> None:
        return None

    def kept(self) -> Sequence[Kept]:
        """Keys and values, and a state, of each layer."""
        carried = self.params.carried()
        return [Both(self.cells(i), carried) for i in range(self.params.n_layer)]
