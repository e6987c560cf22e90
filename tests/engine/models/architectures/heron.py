"""Heron, made up for the tests: every layer but each third one is a leaky sum of all tokens so far,
made of operations that other models have, too. What it sums decays by a table in the file.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.attention import SelfAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.feed_forward import FeedForward
from engine.layers.linear import Embedding, Linear, RMSNorm
from engine.layers.spec import BlockSpec
from engine.layers.step import LayerCache, Pass
from engine.models.decoder import Decoder, DecoderParams
from engine.models.kept import State
from engine.weights.bind import Name

Params = DecoderParams


@dataclass(frozen=True)
class LeakySum:
    """O y; y_t = r y_(t-1) + V x_t, per channel.

    `within` [512, 512] is r^(t - s) where s <= t, else 0; `before` [1, 512] is r^(t + 1).
    """

    v: Annotated[Linear, Name("leak_v")]
    o: Annotated[Linear, Name("leak_out")]
    within: Annotated[Tensor, Name("leak_within.weight")]
    before: Annotated[Tensor, Name("leak_before.weight")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, block: BlockSpec, cache: LayerCache | None
    ) -> Tensor:
        leaf = p.state(i).state
        assert leaf is not None
        v = self.v(x, "leak_v", i)
        e, n = v.shape[0], p.n_tokens
        slot, count = p.state_at.view(0, (1,)), p.state_at.view(4, (1,))
        found = ops.rows(leaf, slot)  # [E, 1]
        within = self.within.view(0, (n, n), (self.within.strides[1],))
        y = ops.matmul(ops.contiguous(v.permute(1, 0)).reshape(n, e), within)
        y = ops.add(y, ops.mul(ops.repeat(found, 1, n), self.before.view(0, (1, n))))
        behind = ops.rows(ops.concat(found, y, 1), count)
        return self.o(p.carry(ops.concat(y, behind, 1), leaf).named("leak", i), "leak_out", i)


@dataclass(frozen=True)
class Weights:
    """The whole model's tensors."""

    embedding: Annotated[Embedding, Name("token_embd", rows=True)]
    blocks: Annotated[list[PreNormBlock[SelfAttention | LeakySum, FeedForward]], Name("blk")]
    norm: Annotated[RMSNorm, Name("output_norm")]
    output: Annotated[Linear, Name("output")]


class Model(Decoder[Params, Weights]):
    """Layers by their number; i mod 3 = 1 attends."""

    def state(self, i: int) -> State | None:
        return None if i % 3 == 1 else State(0, 1, self.params.n_embd)
