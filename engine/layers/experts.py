"""Experts in place of a feed-forward: of many, each token meets a few."""

from dataclasses import dataclass
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.feed_forward import FeedForward
from engine.layers.linear import Linear
from engine.layers.spec import BlockSpec
from engine.weights.bind import Name


@dataclass(frozen=True)
class ExpertLinear:
    """weight [in, out, X]."""

    weight: Annotated[Tensor, Name("weight")]

    def __call__(self, x: Tensor, ids: Tensor, name: str, layer: int) -> Tensor:
        """x [in, U, T] by the experts ids [U, T] -> [out, U, T]."""
        return ops.matmul_id(self.weight, x, ids).named(name, layer)


@dataclass(frozen=True)
class SharedFeedForward(FeedForward):
    """What all tokens go through besides."""

    gate: Annotated[Linear, Name("ffn_gate_shexp")]
    up: Annotated[Linear, Name("ffn_up_shexp")]
    down: Annotated[Linear, Name("ffn_down_shexp")]


@dataclass(frozen=True)
class Experts:
    """The `used` of X experts whose router's logits are largest, each fed with the token times the
    sigmoid of its logit, and a shared one (Llama 4).
    """

    router: Annotated[Linear, Name("ffn_gate_inp")]
    gate: Annotated[ExpertLinear, Name("ffn_gate_exps")]
    up: Annotated[ExpertLinear, Name("ffn_up_exps")]
    down: Annotated[ExpertLinear, Name("ffn_down_exps")]
    shared: SharedFeedForward

    def __call__(self, x: Tensor, i: int, spec: BlockSpec) -> Tensor:
        """x [E, T] -> [E, T] in layer i."""
        n_embd, n = x.shape[:2]
        used = spec.used
        logits = self.router(x, "ffn_moe_logits", i)  # [X, T]
        ids = ops.contiguous(ops.top_k(logits, used)).named("ffn_moe_topk", i)  # [U, T]
        chosen = ops.rows(logits.reshape(1, logits.shape[0], n), ids)  # [1, U, T]
        weights = ops.sigmoid(chosen).named("ffn_moe_weights", i)
        fed = ops.mul(ops.repeat(x.reshape(n_embd, 1, n), 1, used), weights)
        gate, up = self.gate(fed, ids, "ffn_moe_gate", i), self.up(fed, ids, "ffn_moe_up", i)
        made = self.down(spec.gated.activation(gate, up), ids, "ffn_moe_down", i)  # [E, U, T]
        out = self.shared(x, i, spec)
        for u in range(used):
            out = ops.add(out, ops.slice_(made, 1, u, u + 1).reshape(n_embd, n))
        return out.named("ffn_moe_out", i)
