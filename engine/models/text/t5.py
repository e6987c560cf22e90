"""T5, Flan-T5, mT5, UMT5, MADLAD-400: an encoder reads the prompt, a decoder writes.

Raffel et al. 2020; tensor names and keys by the GGUF spec. Where the output is tied to the
embeddings, it is scaled by the root of their width, as T5's own class has it; llama.cpp leaves
that out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from engine.errors import ShapeError
from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.attention import CrossAttention, RelativeAttention
from engine.layers.blocks import Block, joined, pruned
from engine.layers.feed_forward import FeedForward, PlainFeedForward
from engine.layers.linear import Embedding, Linear, RMSNorm
from engine.layers.rope import RopeParams
from engine.layers.spec import BlockSpec
from engine.layers.step import LayerCache, Pass
from engine.models import base
from engine.models.constants import Values
from engine.models.decoder import Decoder
from engine.models.kept import Cells, Crossed, Encoded, Kept
from engine.models.text import t5encoder
from engine.weights.bind import Name
from engine.weights.params import COUNT, TOKENS, Meta, Range


@dataclass(frozen=True, kw_only=True)
class Params(t5encoder.Params):
    """`start` is the decoder's first token, by default the one that pads."""

    n_decoder: Annotated[int, Meta("decoder_block_count", COUNT)] = 0
    start: Annotated[int, Meta("decoder_start_token_id", Range(0, TOKENS.high))] = 0

    def problem(self) -> str:
        """A contradiction among the parameters, or what cannot be computed, or ""."""
        if self.n_decoder not in (0, self.n_layer):
            counts = f"decoder_block_count is {self.n_decoder}, block_count {self.n_layer}"
            return f"{counts}: other numbers of layers are not supported; open another model"
        return super().problem()


@dataclass(frozen=True)
class DecoderBlock(Block[RelativeAttention, FeedForward | PlainFeedForward]):
    """x += A(norm x); x += C(norm x, encoded); x += F(norm x)."""

    attn_norm: Annotated[RMSNorm, Name("attn_norm")]
    cross: CrossAttention
    cross_norm: Annotated[RMSNorm, Name("cross_attn_norm")]
    ffn_norm: Annotated[RMSNorm, Name("ffn_norm")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: BlockSpec, cache: LayerCache | None, last: bool
    ) -> Tensor:
        """x [E, T] -> [E, T] in layer i; nothing is added where no text is encoded."""
        h = self.attn(self.attn_norm(x, spec.eps, "attn_norm", i), i, p, spec, cache)
        x = joined(h, x, i, p, spec, "attention", "cross_inp")
        if p.encoded is not None:
            assert cache is not None
            assert cache.cross is not None
            h = self.cross_norm(x, spec.eps, "attn_norm_cross", i)
            x = ops.add(self.cross(h, i, p, spec.attention, cache.cross), x).named("ffn_inp", i)
        (x,) = pruned(p, last, x)
        h = self.ffn(self.ffn_norm(x, spec.eps, "ffn_norm", i), i, spec)
        return joined(h, x, i, p, spec, "feed_forward", "l_out")


@dataclass(frozen=True)
class Output:
    """A matrix of its own."""

    output: Annotated[Linear, Name("output")]


@dataclass(frozen=True)
class TiedOutput(Output):
    """The embeddings once more."""

    output: Annotated[Linear, Name("output", alt="token_embd")]


@dataclass(frozen=True)
class Weights:
    """The encoder's tensors and the decoder's, which share the embeddings."""

    encoder: t5encoder.Weights
    blocks: Annotated[list[DecoderBlock], Name("dec.blk")]
    norm: Annotated[RMSNorm, Name("dec.output_norm")]
    head: Output | TiedOutput

    @property
    def embedding(self) -> Embedding:
        return self.encoder.embedding

    @property
    def output(self) -> Linear:
        return self.head.output


class Model(Decoder[Params, Weights]):
    gives = frozenset({base.Output.LOGITS})
    biased = True

    def __init__(
        self, params: Params, weights: Weights, constants: Mapping[str, Values], n_ctx: int
    ) -> None:
        super().__init__(params, weights, constants, n_ctx)
        self.start = params.start
        self.encoder = t5encoder.Model(params, weights.encoder, constants, n_ctx)
        for i, block in enumerate(weights.blocks):
            t5encoder.check_table(block.attn, i, params)
        if params.start >= weights.embedding.weight.shape[1]:
            what = f"an embedding for decoder_start_token_id {params.start}"
            raise ShapeError("token_embd", what, weights.embedding.weight.shape)

    def rope(self, i: int) -> RopeParams | None:
        return None

    def spec(self, i: int) -> BlockSpec:
        return replace(super().spec(i), gated=t5encoder.activation(self.weights.blocks[i].ffn))

    def kept(self) -> Sequence[Kept]:
        """Tokens, and the rows of an encoded text as long as a context."""
        a = self.attention(0)
        size = (a.head_dim, a.head_dim, a.n_head_kv)
        both = Crossed(Cells(*size, None), Encoded(*size, self.n_ctx))
        return [both] * self.params.n_layer

    def logits(self, x: Tensor) -> Tensor:
        if isinstance(self.weights.head, TiedOutput):
            x = ops.scale(x, x.shape[0] ** -0.5)
        return super().logits(x)
