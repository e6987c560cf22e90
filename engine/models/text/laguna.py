"""Laguna XS.2, M.1, S 2.1: experts behind dense layers, gated attention, heads by layer.

Poolside 2026; tensor names and keys by the GGUF spec. The first of every four layers sees all and
turns by YaRN; the others see a window and have a base and channels of their own.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.graph import ops
from engine.graph.ops.experts import Scoring
from engine.graph.tensor import Tensor
from engine.layers.attention import NormedAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.experts import Experts
from engine.layers.feed_forward import FeedForward
from engine.layers.linear import Linear
from engine.layers.rope import RopeParams
from engine.models.decoder import HEAD, ROPE_BASE, PlainWeights
from engine.models.routed import RoutedDecoder, RoutedParams
from engine.models.windowed import WindowedDecoder, WindowedParams
from engine.weights.bind import Name
from engine.weights.params import Meta, Range


@dataclass(frozen=True, kw_only=True)
class Params(RoutedParams, WindowedParams):
    every = 4
    full_first = True
    score = Scoring.SIGMOID

    rope_base_local: Annotated[
        float, Meta("rope.freq_base_swa", Range(ROPE_BASE.low, ROPE_BASE.high, or_zero=True))
    ] = 0.0
    n_rot_local: Annotated[int, Meta("rope.dimension_count_swa", HEAD)] = 0

    def turned(self, i: int) -> RopeParams:
        """How layer i turns; windowed ones unscaled."""
        if not self.is_windowed(i):
            return self.rope(neox=True)
        n_rot, base = self.n_rot_local or self.rope_dim, self.rope_base_local or self.rope_base
        return RopeParams(n_rot, base, neox=True)

    def problem(self) -> str:
        """A contradiction among the parameters, or ""."""
        if self.n_rot_local % 2 or self.n_rot_local > self.head_dim:
            expected = f"an even number up to {self.head_dim}, the size of a head"
            return f"rope.dimension_count_swa is {self.n_rot_local}; expected {expected}"
        return super().problem()


@dataclass(frozen=True)
class SoftGatedAttention(NormedAttention):
    """Heads, or their channels, are multiplied by a softplus of what entered."""

    gate: Annotated[Linear, Name("attn_gate")]

    def factors(self, x: Tensor, i: int) -> Tensor:
        """[H, T] or [D*H, T] of what entered, [E, T]."""
        return ops.softplus(self.gate(x, "attn_gate", i))

    def gated(self, mixed: Tensor, x: Tensor, i: int) -> Tensor:
        gate = self.factors(x, i)
        n_gates, n = gate.shape[:2]
        by_gate = mixed.reshape(mixed.shape[0] // n_gates, n_gates, n)
        gated = ops.mul(by_gate, gate.reshape(1, n_gates, n))
        return gated.reshape(*mixed.shape).named("attn_gated", i)


Weights = PlainWeights[PreNormBlock[SoftGatedAttention, Experts | FeedForward]]


class Model(RoutedDecoder[Params, Weights], WindowedDecoder[Params, Weights]):
    """Layers differ in heads, in what they see, how they turn, and whether they have experts."""

    def rope(self, i: int) -> RopeParams:
        return self.params.turned(i)
