"""SmallThinker 4B-A0.6B, 21B-A3B: experts with ReLUs, chosen by what enters the block; NeoX pairs.

Song et al. 2025 (SJTU IPADS, Zenergize AI); tensor names and keys by the GGUF spec. Where layers
are windowed (21B), the first of every four sees all and knows no positions.
"""

from dataclasses import dataclass

from engine.graph import ops
from engine.graph.ops.experts import Scoring
from engine.graph.tensor import Tensor
from engine.layers.attention import SelfAttention
from engine.layers.blocks import PreNormBlock, joined, pruned
from engine.layers.experts import Experts
from engine.layers.rope import RopeParams
from engine.layers.spec import BlockSpec, GatedActivation
from engine.layers.step import LayerCache, Pass
from engine.models.decoder import PlainWeights
from engine.models.routed import RoutedDecoder, RoutedParams
from engine.models.windowed import WindowedDecoder, WindowedParams


@dataclass(frozen=True, kw_only=True)
class Params(RoutedParams, WindowedParams):
    every = 4
    full_first = True
    score = Scoring.SIGMOID


@dataclass(frozen=True)
class AheadBlock(PreNormBlock[SelfAttention, Experts]):
    """x += A(norm x); x += F(norm x), where x as it entered chooses the experts."""

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: BlockSpec, cache: LayerCache | None, last: bool
    ) -> Tensor:
        h = self.attn(self.attn_norm(x, spec.eps, "attn_norm", i), i, p, spec, cache)
        h, entered = pruned(p, last, h, x)
        x = joined(h, entered, i, p, spec, "attention", "ffn_inp")
        normed = self.ffn_norm(x, spec.eps, "ffn_norm", i)
        h = self.ffn.routed(normed, entered, i, spec)
        return joined(h, x, i, p, spec, "feed_forward", "l_out")


Weights = PlainWeights[AheadBlock]


class Model(RoutedDecoder[Params, Weights], WindowedDecoder[Params, Weights]):
    """Layers differ in what they see and whether they turn."""

    gated = GatedActivation(ops.relu, "ffn_reglu")

    def rope(self, i: int) -> RopeParams | None:
        turns = self.params.is_windowed(i) or not self.params.window
        return self.turned if turns else None
