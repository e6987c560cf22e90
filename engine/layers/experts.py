"""Experts in place of a feed-forward: of many, each token meets a few (Shazeer et al. 2017).

Their matrices lie in one tensor, [in, out, X], of which a product reads the chosen ones alone.
"""

from dataclasses import dataclass, replace
from functools import reduce
from typing import Annotated

from engine.errors import ShapeError
from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.feed_forward import FeedForward, FusedFeedForward, PlainFeedForward
from engine.layers.linear import Linear
from engine.layers.spec import BlockSpec, RouteSpec
from engine.weights.bind import Name


@dataclass(frozen=True)
class Router:
    """weight [E, X], bias [X] or none; nothing is rounded before it decides."""

    weight: Annotated[Tensor, Name("weight")]
    bias: Annotated[Tensor | None, Name("bias")]

    def __call__(self, x: Tensor, name: str = "", layer: int | None = None) -> Tensor:
        logits = ops.matmul(self.weight, x, full_precision=True)
        return (logits if self.bias is None else ops.add(logits, self.bias)).named(name, layer)


@dataclass(frozen=True)
class ExpertLinear:
    """weight [in, out, X], bias [out, X] or none; `scale` [X] belongs to four-bit floats."""

    weight: Annotated[Tensor, Name("weight")]
    bias: Annotated[Tensor | None, Name("bias")]
    scale: Annotated[Tensor | None, Name("scale")]

    def __call__(self, x: Tensor, ids: Tensor, name: str, layer: int) -> Tensor:
        """x [in, U or 1, T] by the experts ids [U, T] -> [out, U, T], `scale` left to others."""
        y = ops.matmul_id(self.weight, x, ids).named(name, layer)
        return y if self.bias is None else ops.add_id(y, self.bias, ids).named(name, layer)

    def scaled(self, x: Tensor, ids: Tensor, name: str, layer: int) -> Tensor:
        """Like the above, times each expert's scale."""
        y = self(x, ids, name, layer)
        if self.scale is None:
            return y
        used, tokens = ids.shape[:2]
        factors = ops.rows(self.scale.reshape(1, -1), ids.reshape(used * tokens))
        return ops.mul(y, factors.reshape(1, used, tokens)).named(name, layer)


@dataclass(frozen=True)
class GatedExperts:
    """act(gate(x)) * up(x) of each."""

    gate: Annotated[ExpertLinear, Name("ffn_gate_exps")]
    up: Annotated[ExpertLinear, Name("ffn_up_exps")]

    def __call__(self, x: Tensor, ids: Tensor, i: int, spec: BlockSpec) -> Tensor:
        """x [E, U or 1, T] -> [F, U, T]."""
        gate = self.gate.scaled(x, ids, "ffn_moe_gate", i)
        up = self.up.scaled(x, ids, "ffn_moe_up", i)
        return spec.gated.activation(gate, up).named(f"ffn_moe_{_act(spec)}", i)


@dataclass(frozen=True)
class FusedExperts:
    """Like `GatedExperts`; the rows of one matrix are the gate's, then up's."""

    gate_up: Annotated[ExpertLinear, Name("ffn_gate_up_exps")]

    def __call__(self, x: Tensor, ids: Tensor, i: int, spec: BlockSpec) -> Tensor:
        """x [E, U or 1, T] -> [F, U, T]."""
        both = self.gate_up.scaled(x, ids, "ffn_moe_gate_up", i)
        gate, up = ops.chunk_sections(both, 0, [both.shape[0] // 2] * 2)
        return spec.gated.activation(gate, up).named(f"ffn_moe_{_act(spec)}", i)


@dataclass(frozen=True)
class PlainExperts:
    """act(up(x)) of each."""

    up: Annotated[ExpertLinear, Name("ffn_up_exps")]

    def __call__(self, x: Tensor, ids: Tensor, i: int, spec: BlockSpec) -> Tensor:
        """x [E, U or 1, T] -> [F, U, T]."""
        up = self.up.scaled(x, ids, "ffn_moe_up", i)
        return spec.gated.activation(up, None).named(f"ffn_moe_{_act(spec)}", i)


@dataclass(frozen=True)
class SharedFeedForward(FeedForward):
    """A feed-forward that all tokens pass besides their experts."""

    gate: Annotated[Linear, Name("ffn_gate_shexp")]
    up: Annotated[Linear, Name("ffn_up_shexp")]
    down: Annotated[Linear, Name("ffn_down_shexp")]


@dataclass(frozen=True)
class SharedPlainFeedForward(PlainFeedForward):
    """The same without a gate."""

    up: Annotated[Linear, Name("ffn_up_shexp")]
    down: Annotated[Linear, Name("ffn_down_shexp")]


@dataclass(frozen=True)
class SharedFusedFeedForward(FusedFeedForward):
    """The same whose first matrix has the gate's rows, then up's."""

    up: Annotated[Linear, Name("ffn_up_shexp")]
    down: Annotated[Linear, Name("ffn_down_shexp")]


@dataclass(frozen=True)
class Experts:
    """sum_u w_u down_e(act(gate_e(x)) * up_e(x)), e the experts that the router chooses, plus a
    shared one where there is, times the sigmoid of `share` x where the file has that.

    `bias` is added to scores for the choice alone.
    """

    router: Annotated[Router, Name("ffn_gate_inp")]
    bias: Annotated[Tensor | None, Name("exp_probs_b.bias", alt="exp_probs_b")]
    inner: GatedExperts | FusedExperts | PlainExperts
    down: Annotated[ExpertLinear, Name("ffn_down_exps")]
    shared: SharedFeedForward | SharedPlainFeedForward | SharedFusedFeedForward | None
    share: Annotated[Linear | None, Name("ffn_gate_inp_shexp")]

    def __call__(self, x: Tensor, i: int, spec: BlockSpec) -> Tensor:
        """x [E, T] -> [E, T] in layer i."""
        if self.shared is None:
            return self.routed(x, x, i, spec)
        shared = self.shared(x, i, spec)
        if self.share is not None:
            share = ops.sigmoid(self.share(x)).named("shared_expert_gate", i)  # [1, T]
            shared = ops.mul(shared, share).named("ffn_shexp_gated", i)
        return ops.add(shared, self.routed(x, x, i, spec)).named("ffn_out", i)

    def routed(self, x: Tensor, seen: Tensor, i: int, spec: BlockSpec) -> Tensor:
        """Sum of the chosen experts' results for x [E, T]; the router's input is `seen` [E, T]."""
        route = self.route(i, spec)
        logits, ids = self.chosen(seen, i, route)
        return self.made(x, logits, ids, i, spec, route)

    def route(self, i: int, spec: BlockSpec) -> RouteSpec:
        """The routing of layer i. Raises `ShapeError` where the file's numbers know no experts."""
        if spec.route is None:
            raise ShapeError("experts", f"layer {i} has some, and expert_count is 0")
        return spec.route

    def chosen(self, seen: Tensor, i: int, route: RouteSpec) -> tuple[Tensor, Tensor]:
        """The router's logits [X, T] for `seen` [E, T], and the chosen experts [U, T]."""
        logits = self._logits(seen, i, route)
        groups = (route.groups, route.groups_used)
        ids = ops.route(logits, route.used, route.score, self.bias, *groups)
        return logits, ids.named("ffn_moe_topk", i)

    def made(
        self, x: Tensor, logits: Tensor, ids: Tensor, i: int, spec: BlockSpec, route: RouteSpec
    ) -> Tensor:
        """Sum of the results of the experts ids [U, T] for x [E, T], weighted by logits [X, T]."""
        if spec.gated_experts is not None:
            spec = replace(spec, gated=spec.gated_experts)
        weights = ops.route_weights(
            logits,
            ids,
            route.score,
            normalised=route.normalised,
            scale=route.scale,
            gains=self.down.scale,
        ).named("ffn_moe_weights", i)
        fed = x.reshape(x.shape[0], 1, x.shape[1])
        if route.fed:
            repeated = ops.repeat(fed, 1, route.used)
            fed = ops.mul(repeated, weights.reshape(1, *weights.shape[:2]))
        made = self.down(self.inner(fed, ids, i, spec), ids, "ffn_moe_down", i)  # [E, U, T]
        return (_sum(made) if route.fed else ops.combine(made, weights)).named("ffn_moe_out", i)

    def _logits(self, x: Tensor, i: int, route: RouteSpec) -> Tensor:
        """[X, T]. Raises `ShapeError` where tensors are of another number of experts."""
        logits = self.router(x, "ffn_moe_logits", i)
        counts = {route.experts, logits.shape[0], self.down.weight.shape[2]}
        if len(counts) > 1:
            wanted = f"layer {i} has experts of several numbers: {sorted(counts)}"
            raise ShapeError("ffn_gate_inp", wanted, logits.shape, self.down.weight.shape)
        return logits


def _sum(made: Tensor) -> Tensor:
    """[E, T] of [E, U, T]."""
    n_embd, used, n = made.shape[:3]
    parts = (ops.slice_(made, 1, u, u + 1) for u in range(used))
    return reduce(ops.add, parts).reshape(n_embd, n)


def _act(spec: BlockSpec) -> str:
    """The activation by llama.cpp's name: `swiglu` of `ffn_swiglu`."""
    return spec.gated.name.removeprefix("ffn_")
