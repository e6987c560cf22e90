"""Minnow, made up for the tests: a decoder with a second table of embeddings, where one layer in
four looks at no other token, every other one knows no positions, and the first has a window.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.attention import NormedAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.feed_forward import FeedForward
from engine.layers.linear import Embedding, Linear, RMSNorm
from engine.layers.rope import RopeParams
from engine.layers.spec import GEGLU, BlockSpec
from engine.layers.step import LayerCache, Pass
from engine.models.constants import Constant
from engine.models.decoder import Decoder, DecoderParams
from engine.models.kept import Kept, Nothing
from engine.weights.bind import Name
from engine.weights.params import TOKENS, Meta, Range

SCALE = "logit_scale.weight"


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    """Hyperparameters by their GGUF keys."""

    window: Annotated[int, Meta("attention.sliding_window", TOKENS)]

    def constants(self) -> Sequence[Constant]:
        return [Constant(SCALE, (1,), Range(0.01, 100))]


@dataclass(frozen=True)
class PlainBlock:
    """x += F(norm x), of one token alone."""

    ffn_norm: Annotated[RMSNorm, Name("ffn_norm")]
    ffn: FeedForward

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: BlockSpec, cache: LayerCache | None, last: bool
    ) -> Tensor:
        x = p.prune(x) if last else x
        h = self.ffn(self.ffn_norm(x, spec.eps, "ffn_norm", i), i, spec)
        return ops.add(h, x).named("l_out", i)


@dataclass(frozen=True)
class Weights:
    """The whole model's tensors."""

    embedding: Annotated[Embedding, Name("token_embd", rows=True)]
    tide: Annotated[Embedding, Name("tide", rows=True)]
    blocks: Annotated[list[PreNormBlock[NormedAttention, FeedForward] | PlainBlock], Name("blk")]
    norm: Annotated[RMSNorm, Name("output_norm")]
    output: Annotated[Linear, Name("output", alt="token_embd")]


class Model(Decoder[Params, Weights]):
    """Layers by their number; i mod 4 = 2 keeps nothing."""

    gated = GEGLU

    def rope(self, i: int) -> RopeParams | None:
        return self.turned if i % 2 == 0 else None

    def window(self, i: int) -> int | None:
        return self.params.window if i == 0 else None

    def kept(self) -> Sequence[Kept]:
        return [Nothing() if i % 4 == 2 else cells for i, cells in enumerate(super().kept())]

    def embed(self, p: Pass) -> Tensor:
        return ops.add(super().embed(p), self.weights.tide(p.tokens)).named("inp_tide")

    def logits(self, x: Tensor) -> Tensor:
        scale = self.constants.get(SCALE)
        y = super().logits(x)
        return y if scale is None else ops.scale(y, float(scale[0])).named("result_output")
