"""MiniMax M3, text: experts behind dense layers, gpt-oss's activation, an index of blocks.

MiniMax 2026; tensor names and keys by the GGUF spec. Tokens look at the `top_k` blocks of others
that the index rates highest: contexts of as many blocks need none, and longer ones are refused.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.graph.ops.experts import Scoring
from engine.layers.attention import NormedAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.experts import Experts
from engine.layers.feed_forward import FeedForward
from engine.layers.spec import GatedActivation
from engine.models.decoder import PlainWeights
from engine.models.routed import RoutedDecoder, RoutedParams
from engine.models.text.gpt_oss import swiglu_limit
from engine.weights.params import COUNT, Meta


@dataclass(frozen=True, kw_only=True)
class Params(RoutedParams):
    """Hyperparameters by their GGUF keys; `block` is in tokens."""

    score = Scoring.SIGMOID

    top_k: Annotated[int, Meta("attention.indexer.top_k", COUNT)]
    block: Annotated[int, Meta("attention.indexer.block_size", COUNT)]

    @property
    def n_ctx_exact(self) -> int:
        return self.top_k * self.block


Weights = PlainWeights[PreNormBlock[NormedAttention, Experts | FeedForward]]


class Model(RoutedDecoder[Params, Weights]):
    """The first layers are dense."""

    gated = GatedActivation(swiglu_limit, "ffn_swiglu_oai")
