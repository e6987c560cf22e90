"""GroveMoE 33B-A3B: experts, then adjugate ones that neighbours share and that read their sum.

inclusionAI 2025; tensor names and keys by the GGUF spec. Norms of queries and keys, NeoX pairs. As
in llama.cpp, adjugate expert e weighs what expert e would: the router's scores have no others.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.errors import ShapeError
from engine.gguf.formats import F32, I32
from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.attention import NormedAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.experts import ExpertLinear, Experts, GatedExperts
from engine.layers.spec import BlockSpec, RouteSpec
from engine.models.decoder import PlainWeights
from engine.models.routed import RoutedDecoder, RoutedParams
from engine.weights.bind import Name
from engine.weights.params import COUNT, Meta, Range


@dataclass(frozen=True)
class GroveRoute(RouteSpec):
    """Runs of `together` experts share an adjugate one, whose part is multiplied by `share`."""

    together: int = 1
    share: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Params(RoutedParams):
    together: Annotated[int, Meta("experts_per_group", COUNT)]
    share: Annotated[float, Meta("expert_group_scale", Range(0, 1e6))]

    def route(self, i: int) -> RouteSpec | None:
        route = super().route(i)
        if route is None:
            return None
        return GroveRoute(**vars(route), together=self.together, share=self.share)

    def problem(self) -> str:
        """A contradiction among the parameters, or ""."""
        if self.n_expert % self.together or max(self.used) > self.n_expert // self.together:
            return (
                f"experts_per_group {self.together} does not go with expert_count {self.n_expert}"
                f" and expert_used_count {max(self.used)}"
            )
        return super().problem()


@dataclass(frozen=True)
class AdjugateGated(GatedExperts):
    """The same under other names."""

    gate: Annotated[ExpertLinear, Name("ffn_gate_chexps")]
    up: Annotated[ExpertLinear, Name("ffn_up_chexps")]


@dataclass(frozen=True)
class GroveExperts(Experts):
    """y + share * adjugate(y), y being the sum that experts make."""

    adjugate: AdjugateGated
    adjugate_down: Annotated[ExpertLinear, Name("ffn_down_chexps")]

    def __call__(self, x: Tensor, i: int, spec: BlockSpec) -> Tensor:
        """x [E, T] -> [E, T] in layer i."""
        route = self.route(i, spec)
        assert isinstance(route, GroveRoute)
        groups = self.adjugate_down.weight.shape[2]
        if groups * route.together != route.experts:
            wanted = f"layer {i} has {groups} adjugate experts for {route.experts} experts"
            raise ShapeError("ffn_down_chexps", wanted)
        logits, ids = self.chosen(x, i, route)
        y = self.made(x, logits, ids, i, spec, route)
        shared = ops.cast(ops.scale(ops.cast(ids, F32), 1 / route.together), I32)
        weights = ops.route_weights(
            logits, shared, route.score, normalised=route.normalised, scale=route.scale
        ).named("ffn_adj_moe_weights", i)
        fed = self.adjugate(y.reshape(y.shape[0], 1, y.shape[1]), shared, i, spec)
        more = ops.combine(self.adjugate_down(fed, shared, "ffn_adj_moe_down", i), weights)
        return ops.add(y, ops.scale(more, route.share)).named("ffn_final_moe_out", i)


Weights = PlainWeights[PreNormBlock[NormedAttention, GroveExperts]]


class Model(RoutedDecoder[Params, Weights]):
    """All layers are alike."""
