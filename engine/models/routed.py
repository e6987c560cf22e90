"""Hyperparameters of decoders with experts, and which of them a token meets."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, TypeVar

from engine.graph.ops.experts import Scoring
from engine.layers.spec import BlockSpec, RouteSpec
from engine.models.decoder import Decoder, DecoderParams, W
from engine.weights.params import COUNT, Meta, Range, of_layer

SOME = Range(0, COUNT.high)
SCORES = (Scoring.SOFTMAX, Scoring.SIGMOID, Scoring.LATE_SOFTMAX, Scoring.SQRT_SOFTPLUS)
"""As `expert_gating_func` counts them, from 1."""


@dataclass(frozen=True, kw_only=True)
class RoutedParams(DecoderParams):
    """By their GGUF keys; without experts `n_expert` is 0. What no key says, or a file leaves out,
    an architecture says by `score` and `normalised`.
    """

    score: ClassVar[Scoring] = Scoring.SOFTMAX
    normalised: ClassVar[bool] = True

    n_expert: Annotated[int, Meta("expert_count", SOME)] = 0
    used: Annotated[tuple[int, ...], Meta("expert_used_count", SOME, by_layer=True)] = (0,)
    gating: Annotated[int, Meta("expert_gating_func", Range(0, len(SCORES)))] = 0
    weights_norm: Annotated[bool | None, Meta("expert_weights_norm", Range(0, 1))] = None
    weights_scale: Annotated[float, Meta("expert_weights_scale", Range(0, 1e6))] = 0.0
    n_group: Annotated[int, Meta("expert_group_count", SOME)] = 0
    n_group_used: Annotated[int, Meta("expert_group_used_count", SOME)] = 0

    def route(self, i: int) -> RouteSpec | None:
        """Routing of layer i, if it has experts."""
        if not self.n_expert:
            return None
        groups = max(1, self.n_group)
        return RouteSpec(
            self.n_expert,
            of_layer(self.used, i),
            SCORES[self.gating - 1] if self.gating else self.score,
            self.normalised if self.weights_norm is None else self.weights_norm,
            self.weights_scale or 1.0,
            groups,
            (self.n_group_used or groups) if groups > 1 else 1,
        )

    def problem(self) -> str:
        """A contradiction among the parameters, or ""."""
        for i in range(len(self.used)):
            route = self.route(i)
            if route is None:
                break
            if not 1 <= route.used <= route.experts:
                return f"expert_used_count is {route.used} of expert_count {route.experts}"
            if route.experts % route.groups or route.groups_used > route.groups:
                taken = f"expert_group_used_count {route.groups_used} of {route.groups} groups"
                return f"{taken} does not go with expert_count {route.experts}"
            if route.used > route.experts // route.groups * route.groups_used:
                return f"expert_used_count {route.used} is more than the groups that are used have"
        return super().problem()


P = TypeVar("P", bound=RoutedParams)


class RoutedDecoder(Decoder[P, W]):
    """Blocks get their route; those without experts ignore it."""

    def spec(self, i: int) -> BlockSpec:
        return replace(super().spec(i), route=self.params.route(i))
