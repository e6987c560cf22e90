"""Blocks of a decoder: a mixer and a feed-forward, each added to the residual.

All are called alike, so that a model is a list of them; where the norms stand is their difference.
What mixes and what feeds are parameters: `PreNormBlock[NormedAttention, FeedForward | Experts]`.
"""

from dataclasses import dataclass
from typing import Annotated, Generic, Protocol, TypeVar

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.linear import LayerNorm, RMSNorm, UnsuffixedNorm
from engine.layers.spec import BlockSpec
from engine.layers.step import LayerCache, Pass, SiteName
from engine.weights.bind import Name


class Mixer(Protocol):
    """Weights that mix tokens, such as attention."""

    def __call__(
        self, x: Tensor, i: int, p: Pass, block: BlockSpec, cache: LayerCache | None
    ) -> Tensor:
        """x [E, T] -> [E, T] in layer i."""
        ...


class Feeder(Protocol):
    """Weights applied to each token alone, such as a feed-forward."""

    def __call__(self, x: Tensor, i: int, spec: BlockSpec) -> Tensor:
        """x [E, T] -> [E, T] in layer i."""
        ...


M = TypeVar("M", bound=Mixer)
F = TypeVar("F", bound=Feeder)


@dataclass(frozen=True)
class Block(Generic[M, F]):
    """A block's common parts; the subclass's `__call__` places the norms."""

    attn: M
    ffn: F

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: BlockSpec, cache: LayerCache | None, last: bool
    ) -> Tensor:
        """x [E, T] -> [E, T] in layer i; in the `last` one only the wanted [E, n_outputs]."""
        raise NotImplementedError


def pruned(p: Pass, last: bool, *tensors: Tensor) -> list[Tensor]:
    """Keep only the wanted columns in the last layer: [E, T] each becomes [E, n_outputs]."""
    return [p.prune(t) for t in tensors] if last else list(tensors)


def joined(
    h: Tensor, x: Tensor, i: int, p: Pass, spec: BlockSpec, part: SiteName, name: str
) -> Tensor:
    """x + residual * h, h being what a part of layer i gives."""
    if spec.residual != 1.0:
        h = ops.scale(h, spec.residual)
    return ops.add(p.site(h, i, part), x).named(name, i)


@dataclass(frozen=True)
class PreNormBlock(Block[M, F]):
    """x += A(norm x); x += F(norm x), as in Llama (Touvron et al. 2023)."""

    attn_norm: Annotated[RMSNorm, Name("attn_norm")]
    ffn_norm: Annotated[RMSNorm, Name("ffn_norm", alt="post_attention_norm")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: BlockSpec, cache: LayerCache | None, last: bool
    ) -> Tensor:
        h = self.attn(self.attn_norm(x, spec.eps, "attn_norm", i), i, p, spec, cache)
        h, x = pruned(p, last, h, x)
        x = joined(h, x, i, p, spec, "attention", "ffn_inp")
        h = self.ffn(self.ffn_norm(x, spec.eps, "ffn_norm", i), i, spec)
        return joined(h, x, i, p, spec, "feed_forward", "l_out")


@dataclass(frozen=True)
class LayerNormBlock(PreNormBlock[M, F]):
    """The same with norms that take off the mean."""

    attn_norm: Annotated[LayerNorm, Name("attn_norm")]
    ffn_norm: Annotated[LayerNorm, Name("ffn_norm")]


@dataclass(frozen=True)
class SandwichBlock(Block[M, F]):
    """x += norm A(norm x); x += norm F(norm x), as in Gemma 2 and 3."""

    attn_norm: Annotated[RMSNorm, Name("attn_norm")]
    attn_post_norm: Annotated[RMSNorm, Name("post_attention_norm")]
    ffn_norm: Annotated[RMSNorm, Name("ffn_norm")]
    ffn_post_norm: Annotated[RMSNorm, Name("post_ffw_norm")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: BlockSpec, cache: LayerCache | None, last: bool
    ) -> Tensor:
        post_eps = spec.eps if spec.post_eps is None else spec.post_eps
        h = self.attn(self.attn_norm(x, spec.eps, "attn_norm", i), i, p, spec, cache)
        h, x = pruned(p, last, h, x)
        h = self.attn_post_norm(h, post_eps, "attn_post_norm", i)
        x = joined(h, x, i, p, spec, "attention", "sa_out")
        h = self.ffn(self.ffn_norm(x, spec.eps, "ffn_norm", i), i, spec)
        h = self.ffn_post_norm(h, post_eps, "ffn_post_norm", i)
        return joined(h, x, i, p, spec, "feed_forward", "l_out")


@dataclass(frozen=True)
class UnsuffixedSandwichBlock(SandwichBlock[M, F]):
    """The same, where names of the norms behind have no "weight" at their end (PLaMo 2 and 3)."""

    attn_post_norm: Annotated[UnsuffixedNorm, Name("post_attention_norm")]
    ffn_post_norm: Annotated[UnsuffixedNorm, Name("post_ffw_norm")]


@dataclass(frozen=True)
class PostNormBlock(Block[M, F]):
    """x += norm A(x); x += norm F(x), as in OLMo 2."""

    attn_post_norm: Annotated[RMSNorm, Name("post_attention_norm")]
    ffn_post_norm: Annotated[RMSNorm, Name("post_ffw_norm")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: BlockSpec, cache: LayerCache | None, last: bool
    ) -> Tensor:
        h, x = pruned(p, last, self.attn(x, i, p, spec, cache), x)
        h = self.attn_post_norm(h, spec.eps, "attn_post_norm", i)
        x = joined(h, x, i, p, spec, "attention", "ffn_inp")
        h = self.ffn_post_norm(self.ffn(x, i, spec), spec.eps, "ffn_post_norm", i)
        return joined(h, x, i, p, spec, "feed_forward", "l_out")


@dataclass(frozen=True)
class RMSParallelBlock(Block[M, F]):
    """h = norm x; x += A(h) + F(h), the norm by root mean square."""

    attn_norm: Annotated[RMSNorm, Name("attn_norm")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: BlockSpec, cache: LayerCache | None, last: bool
    ) -> Tensor:
        entered = self.attn_norm(x, spec.eps, "attn_norm", i)
        h, x, entered = pruned(p, last, self.attn(entered, i, p, spec, cache), x, entered)
        x = joined(h, x, i, p, spec, "attention", "sa_out")
        return joined(self.ffn(entered, i, spec), x, i, p, spec, "feed_forward", "l_out")


@dataclass(frozen=True)
class ParallelBlock(RMSParallelBlock[M, F]):
    """The same with a norm that takes off the mean, as in GPT-J and PaLM."""

    attn_norm: Annotated[LayerNorm, Name("attn_norm")]


@dataclass(frozen=True)
class MixerBlock(Generic[M]):
    """x += A(norm x), as in Mamba (Gu & Dao 2023)."""

    attn: M
    attn_norm: Annotated[RMSNorm, Name("attn_norm")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: BlockSpec, cache: LayerCache | None, last: bool
    ) -> Tensor:
        """x [E, T] -> [E, T] in layer i; in the `last` one only the wanted [E, n_outputs]."""
        h = self.attn(self.attn_norm(x, spec.eps, "attn_norm", i), i, p, spec, cache)
        h, x = pruned(p, last, h, x)
        return joined(h, x, i, p, spec, "attention", "l_out")


@dataclass(frozen=True)
class FeederBlock(Generic[F]):
    """x += F(norm x)."""

    ffn: F
    norm: Annotated[RMSNorm, Name("attn_norm")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: BlockSpec, cache: LayerCache | None, last: bool
    ) -> Tensor:
        """x [E, T] -> [E, T] in layer i; in the `last` one only the wanted [E, n_outputs]."""
        (x,) = pruned(p, last, x)
        h = self.ffn(self.norm(x, spec.eps, "attn_norm", i), i, spec)
        return joined(h, x, i, p, spec, "feed_forward", "l_out")


@dataclass(frozen=True)
class AddNormBlock(Block[M, F]):
    """x = norm(x + A(x)); x = norm(x + F(x)), as in the first Transformer (Vaswani et al. 2017)."""

    attn_out_norm: Annotated[LayerNorm, Name("attn_output_norm")]
    out_norm: Annotated[LayerNorm, Name("layer_output_norm")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: BlockSpec, cache: LayerCache | None, last: bool
    ) -> Tensor:
        h, x = pruned(p, last, self.attn(x, i, p, spec, cache), x)
        x = joined(h, x, i, p, spec, "attention", "attn_residual")
        x = self.attn_out_norm(x, spec.eps, "attn_out_norm", i)
        x = joined(self.ffn(x, i, spec), x, i, p, spec, "feed_forward", "ffn_residual")
        return self.out_norm(x, spec.eps, "l_out", i)
