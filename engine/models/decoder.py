"""The common text model: token embeddings, blocks in a row, a norm, an output matrix.

An architecture adds to the params that all have, declares its weights, and says what its blocks'
numbers are layer by layer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from typing import Annotated, ClassVar, Generic, Protocol, TypeVar

from engine.graph.tensor import Tensor
from engine.layers.linear import Embedding, LayerNorm, Linear, RMSNorm
from engine.layers.rope import RopeParams, Yarn
from engine.layers.spec import SWIGLU, AttentionSpec, BlockSpec, GatedActivation
from engine.layers.step import LayerCache, Pass
from engine.models.base import Output, TextModel, TextWeights
from engine.models.constants import Constant, factors_by_pair
from engine.models.kept import Cells, Kept, State
from engine.weights.bind import Name
from engine.weights.params import (
    BLOCK_COUNT,
    COUNT,
    EPSILON,
    NEXTN_COUNT,
    WIDTH,
    Meta,
    OneOf,
    Range,
    of_layer,
)

CONTEXT = Range(1, 1 << 26)
HEAD = Range(1, 1 << 16, or_zero=True)
ALIBI = Range(0, 1e6)
CLAMP = Range(1e-3, 1e6, or_zero=True)
ROPE_BASE = Range(2, 1e12)
ROPE_FACTOR = Range(0.01, 1 << 16, or_zero=True)
SCALINGS = OneOf(("none", "linear", "yarn"))


@dataclass(frozen=True, kw_only=True)
class DecoderParams:
    """Hyperparameters that decoders share, by their GGUF keys; 0 where it is allowed means that
    the key is not used. Of `n_block` blocks the last `n_nextn` predict further tokens (mtp.py).
    """

    falls: ClassVar[bool] = False
    """True if scores may fall with the distance (ALiBi)."""
    n_block: Annotated[int, Meta(BLOCK_COUNT, COUNT)]
    n_nextn: Annotated[int, Meta(NEXTN_COUNT, Range(0, COUNT.high))] = 0
    n_ctx_train: Annotated[int, Meta("context_length", CONTEXT)]
    n_embd: Annotated[int, Meta("embedding_length", WIDTH)]
    heads: Annotated[tuple[int, ...], Meta("attention.head_count", COUNT, by_layer=True)]
    heads_kv: Annotated[tuple[int, ...], Meta("attention.head_count_kv", HEAD, by_layer=True)] = ()
    key_length: Annotated[int, Meta("attention.key_length", HEAD)] = 0
    eps: Annotated[float, Meta("attention.layer_norm_rms_epsilon", EPSILON)]
    n_rot: Annotated[int, Meta("rope.dimension_count", HEAD)] = 0
    rope_base: Annotated[float, Meta("rope.freq_base", ROPE_BASE)] = 1e4
    rope_scaling: Annotated[str, Meta("rope.scaling.type", SCALINGS)] = "linear"
    rope_factor: Annotated[
        float, Meta("rope.scaling.factor", ROPE_FACTOR, alt=("rope.scale_linear",))
    ] = 0.0
    alibi: Annotated[float, Meta("attention.max_alibi_bias", ALIBI)] = 0.0
    rope_original: Annotated[
        int, Meta("rope.scaling.original_context_length", Range(1, 1 << 26, or_zero=True))
    ] = 0

    @property
    def n_layer(self) -> int:
        return self.n_block - self.n_nextn

    @property
    def n_ctx_exact(self) -> int:
        return 0

    @property
    def head_dim(self) -> int:
        return self.key_length or self.n_embd // self.heads[0]

    def n_head(self, i: int) -> int:
        """Layer i's heads."""
        return of_layer(self.heads, i)

    def n_head_kv(self, i: int) -> int:
        """Layer i's heads of keys and values; 0 where other layers have some."""
        return of_layer(self.heads_kv, i) if any(self.heads_kv) else self.n_head(i)

    @property
    def rope_dim(self) -> int:
        """Channels of a head that are turned."""
        return self.n_rot or self.head_dim

    def is_long(self, n_ctx: int) -> bool:
        """True if a context has more tokens than the model was trained for before scaling."""
        return n_ctx > (self.rope_original or self.n_ctx_train)

    def problem(self) -> str:
        """A contradiction among the parameters, or what cannot be computed, or ""."""
        if self.alibi and not self.falls:
            return (
                f"attention.max_alibi_bias is {self.alibi:g}: scores biased by distance (ALiBi) are"
                " not supported for this architecture; open another model"
            )
        if self.n_layer < 1:
            return f"nextn_predict_layers is {self.n_nextn} of block_count {self.n_block}"
        for i in range(len(self.heads)):
            if not self.key_length and self.n_embd % self.n_head(i):
                count = f"head_count {self.n_head(i)}"
                return f"embedding_length {self.n_embd} is not a multiple of {count}"
        for i in range(max(len(self.heads), len(self.heads_kv))):
            heads, kv_heads = self.n_head(i), self.n_head_kv(i)
            if kv_heads and heads % kv_heads:
                return f"head_count {heads} is not a multiple of head_count_kv {kv_heads}"
        if self.rope_dim % 2 or self.rope_dim > self.head_dim:
            return (
                f"rope.dimension_count is {self.rope_dim}; expected an even number up to"
                f" {self.head_dim}, the size of a head"
            )
        return ""

    def constants(self) -> Sequence[Constant]:
        """None, as most."""
        return ()

    def attention(self, rope: RopeParams | None, i: int = 0) -> AttentionSpec:
        """Layer i's attention, scores scaled by the size of a head."""
        heads = (self.n_head(i), self.n_head_kv(i), self.head_dim)
        scale = 1 / sqrt(self.head_dim)
        return AttentionSpec(*heads, scale, self.eps, rope, alibi=self.alibi)

    def rope(
        self, neox: bool, factors: tuple[float, ...] | None = None, magnitude: float = 1.0
    ) -> RopeParams:
        """Scaled as the file says; `factors` divide the frequencies of the pairs, `magnitude`
        multiplies cosines and sines.
        """
        scale = 1.0 if self.rope_scaling == "none" else 1.0 / (self.rope_factor or 1.0)
        yarn = Yarn(self.rope_original or self.n_ctx_train) if self.rope_scaling == "yarn" else None
        return RopeParams(
            self.rope_dim, self.rope_base, neox, scale, factors, yarn, magnitude=magnitude
        )


@dataclass(frozen=True, kw_only=True)
class ClampedParams(DecoderParams):
    """Models with layer norms; `clamp` bounds queries, keys and values, 0: not at all."""

    eps: Annotated[float, Meta("attention.layer_norm_epsilon", EPSILON)]
    clamp: Annotated[float, Meta("attention.clamp_kqv", CLAMP)] = 0.0

    def attention(self, rope: RopeParams | None, i: int = 0) -> AttentionSpec:
        return replace(super().attention(rope, i), clamp=self.clamp)


class DecoderBlock(Protocol):
    """A block of engine/layers/blocks.py."""

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: BlockSpec, cache: LayerCache | None, last: bool
    ) -> Tensor: ...


class Norm(Protocol):
    """A norm of engine/layers/linear.py, with weights or without."""

    def __call__(self, x: Tensor, eps: float, name: str, layer: int | None = None) -> Tensor: ...


class LayerStackWeights(TextWeights, Protocol):
    """Tokens' embeddings, and blocks."""

    @property
    def embedding(self) -> Embedding: ...
    @property
    def blocks(self) -> Sequence[DecoderBlock]: ...


class DecoderWeights(LayerStackWeights, Protocol):
    """The tensors around the blocks."""

    @property
    def norm(self) -> Norm: ...
    @property
    def output(self) -> Linear: ...


B = TypeVar("B", bound=DecoderBlock)


@dataclass(frozen=True)
class PlainWeights(Generic[B]):
    """Tensors of most decoders, with RMS norms."""

    embedding: Annotated[Embedding, Name("token_embd", rows=True)]
    blocks: Annotated[list[B], Name("blk")]
    norm: Annotated[RMSNorm, Name("output_norm")]
    output: Annotated[Linear, Name("output", alt="token_embd")]


@dataclass(frozen=True)
class LayerNormWeights(PlainWeights[B]):
    """Tensors of decoders with layer norms."""

    norm: Annotated[LayerNorm, Name("output_norm")]


P = TypeVar("P", bound=DecoderParams)
S = TypeVar("S", bound=LayerStackWeights)
W = TypeVar("W", bound=DecoderWeights)


class LayerStack(TextModel[P, S]):
    """Embeddings and blocks: what decoders and encoders (encoder.py) share."""

    gated: ClassVar[GatedActivation] = SWIGLU
    neox: ClassVar[bool] = True
    """True if rope pairs the halves of a head, as GPT-NeoX does, not neighbours."""

    @cached_property
    def turned(self) -> RopeParams:
        """The file's rope, with its factors by pair where it has them."""
        return self.params.rope(self.neox, factors_by_pair(self.constants))

    def rope(self, i: int) -> RopeParams | None:
        """How layer i turns queries and keys; None: not at all."""
        return self.turned

    def attention(self, i: int) -> AttentionSpec:
        """The numbers of layer i's attention."""
        return self.params.attention(self.rope(i), i)

    def spec(self, i: int) -> BlockSpec:
        """The numbers of layer i."""
        return BlockSpec(self.attention(i), self.gated, self.params.eps)

    def embed(self, p: Pass) -> Tensor:
        """Input of the first block for tokens [E, T]; zero where a token is -1."""
        return self.weights.embedding(p.tokens)

    def hidden(self, p: Pass, caches: Sequence[LayerCache | None]) -> Tensor:
        """[E, n_outputs]."""
        x = p.with_pictures(self.embed(p))
        for i, cache in enumerate(caches):
            x = p.site(self.layer(x, i, p, cache), i, "residual", x)
        return self.normed(x)

    def normed(self, x: Tensor) -> Tensor:
        """[E, n] of what blocks give, as the output takes it; here as it is."""
        return x

    def layer(self, x: Tensor, i: int, p: Pass, cache: LayerCache | None) -> Tensor:
        """x [E, T] -> [E, T]; what leaves the last layer is [E, n_outputs]."""
        last = i == self.params.n_layer - 1
        return self.weights.blocks[i](x, i, p, self.spec(i), cache, last)

    def n_heads(self, layer: int) -> int:
        return self.attention(layer).n_head


class Decoder(LayerStack[P, W]):
    """The forward pass of models that write: each token sees those before it."""

    gives = frozenset({Output.LOGITS, Output.EMBEDDINGS})

    def window(self, i: int) -> int | None:
        """How many tokens layer i sees, the token itself included; None: all."""
        return None

    def state(self, i: int) -> State | None:
        """The state that layer i carries between tokens in place of keys and values, if any."""
        return None

    def kept(self) -> Sequence[Kept]:
        """Keys and values of each layer's window, or its state."""
        return [self.kept_by(i) for i in range(self.params.n_layer)]

    def kept_by(self, i: int) -> Kept:
        """The same of layer i."""
        return self.state(i) or self.cells(i)

    def cells(self, i: int) -> Cells:
        """Keys and values of layer i's window."""
        a = self.attention(i)
        return Cells(a.head_dim, a.head_dim, a.n_head_kv, a.rope, self.window(i))

    def normed(self, x: Tensor) -> Tensor:
        return self.weights.norm(x, self.params.eps, "result_norm")

    def n_heads(self, layer: int) -> int:
        return 0 if self.state(layer) else self.attention(layer).n_head

    def logits(self, x: Tensor) -> Tensor:
        """[E, n_outputs] -> [V, n_outputs]."""
        return self.weights.output(x, "result_output")
