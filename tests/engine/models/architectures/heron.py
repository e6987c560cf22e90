"""Heron, made up for the tests: every layer but each third one is a leaky sum of all tokens so far,
made of operations that other models have, too. What it sums decays by a table in the file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.blocks import BlockSpec, PreNormBlock
from engine.layers.feed_forward import SWIGLU, FeedForward
from engine.layers.linear import Embedding, Linear, RMSNorm
from engine.layers.step import LayerCache, Pass
from engine.models.decoder import Decoder, DecoderParams
from engine.models.kept import Kept, State
from engine.weights.bind import Name

Params = DecoderParams


@dataclass(frozen=True)
class LeakyBlock:
    """x += O y; x += F(norm x): y_t = r y_(t-1) + V (norm x_t), per channel.

    `within` [512, 512] is r^(t - s) where s <= t, else 0; `before` [1, 512] is r^(t + 1).
    """

    attn_norm: Annotated[RMSNorm, Name("attn_norm")]
    v: Annotated[Linear, Name("leak_v")]
    o: Annotated[Linear, Name("leak_out")]
    within: Annotated[Tensor, Name("leak_within.weight")]
    before: Annotated[Tensor, Name("leak_before.weight")]
    ffn_norm: Annotated[RMSNorm, Name("ffn_norm")]
    ffn: FeedForward

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: BlockSpec, cache: LayerCache | None, last: bool
    ) -> Tensor:
        v = self.v(self.attn_norm(x, spec.eps, "attn_norm", i), "leak_v", i)
        h = self.o(self.summed(v, i, p), "leak_out", i)
        if last:
            h, x = p.prune(h), p.prune(x)
        x = ops.add(p.changes.of(h, i, "attention"), x).named("ffn_inp", i)
        h = self.ffn(self.ffn_norm(x, spec.eps, "ffn_norm", i), i, spec.gated)
        return ops.add(p.changes.of(h, i, "feed_forward"), x).named("l_out", i)

    def summed(self, v: Tensor, i: int, p: Pass) -> Tensor:
        """[E, T] -> [E, T]."""
        leaf = p.state(i).state
        assert leaf is not None
        e, n = v.shape[0], p.n_tokens
        slot, count = p.state_at.view(0, (1,)), p.state_at.view(4, (1,))
        found = ops.rows(leaf, slot)  # [E, 1]
        within = self.within.view(0, (n, n), (self.within.strides[1],))
        y = ops.matmul(ops.contiguous(v.permute(1, 0)).reshape(n, e), within)
        old = ops.mul(ops.repeat(found, 1, n), self.before.view(0, (1, n)))
        y = ops.add(y, old)
        return p.carry(ops.concat(y, ops.rows(ops.concat(found, y, 1), count), 1), leaf).named(
            "leak", i
        )


@dataclass(frozen=True)
class Weights:
    """The whole model's tensors."""

    embedding: Annotated[Embedding, Name("token_embd", rows=True)]
    blocks: Annotated[list[PreNormBlock | LeakyBlock], Name("blk")]
    norm: Annotated[RMSNorm, Name("output_norm")]
    output: Annotated[Linear, Name("output")]


class Model(Decoder[Params, Weights]):
    """Layers by their number; i mod 3 = 1 attends."""

    def spec(self, i: int) -> BlockSpec:
        params = self.params
        return BlockSpec(params.attention(params.rope(neox=True)), SWIGLU, params.rms_eps)

    def kept(self) -> Sequence[Kept]:
        state = State(0, 1, self.params.n_embd)
        return [cells if i % 3 == 1 else state for i, cells in enumerate(super().kept())]
