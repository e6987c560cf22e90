"""Which experts a token meets, and the sum of what they make of it (mixture of experts)."""

from dataclasses import KW_ONLY, dataclass
from enum import StrEnum

from engine.errors import ShapeError
from engine.gguf.formats import F32, I32
from engine.graph.node import Arguments, node
from engine.graph.op import Op
from engine.graph.tensor import Tensor


class Scoring(StrEnum):
    """The score made of a router's logits l: softmax(l) or sigmoid(l) over all experts, the logits
    themselves until a softmax over those that are chosen, or sqrt(ln(1 + e^l)). SPARSE_MIXER also
    compares logits; an expert's weight is its part of a softmax over it and those whose logits are
    near its own (`NEAR`), but for those chosen before it (SparseMixer-2, Liu et al. 2024).
    """

    SOFTMAX = "softmax"
    SIGMOID = "sigmoid"
    LATE_SOFTMAX = "late_softmax"
    SQRT_SOFTPLUS = "sqrt_softplus"
    SPARSE_MIXER = "sparse_mixer"


NEAR = 0.02
"""A logit is near another, l, if it is below l by at most this part of the larger one of l and its
own size: twice the jitter that the published models were trained with.
"""


@dataclass(frozen=True)
class Route(Arguments):
    """Logits of all experts, and what is added to their scores before some are chosen."""

    logits: Tensor
    bias: Tensor | None
    _: KW_ONLY
    used: int
    score: Scoring
    groups: int
    groups_used: int

    @property
    def by_score(self) -> bool:
        """True if scores are compared, or logits, which have the same order and fewer ties."""
        return self.bias is not None or self.sums_two

    @property
    def sums_two(self) -> bool:
        """True if a group counts as much as its two best experts together, or as its best."""
        return self.groups > 1 and self.score is not Scoring.SOFTMAX


@dataclass(frozen=True)
class RouteWeights(Arguments):
    """Logits of all experts, those that are chosen, and what multiplies each expert's weight."""

    logits: Tensor
    ids: Tensor
    gains: Tensor | None
    _: KW_ONLY
    score: Scoring
    normalised: bool
    scale: float


@dataclass(frozen=True)
class Combine(Arguments):
    """Weights of experts, and what they made: in this order, so that both of a route's results
    are computed before their products, which may lie on another device.
    """

    weights: Tensor
    y: Tensor


def route(
    logits: Tensor,
    used: int,
    score: Scoring,
    bias: Tensor | None = None,
    groups: int = 1,
    groups_used: int = 1,
) -> Tensor:
    """i32 [U, T]: for each token the `used` experts of logits f32 [X, T] with the largest
    score + bias [X], the largest first; equal ones count by their number, NaN comes last.

    With several `groups`, runs of X / groups experts, only those of the `groups_used` best ones may
    be chosen: a group's score is the sum of its two largest (DeepSeek-V3), for softmax its largest
    (DeepSeek-V2).
    """
    experts, tokens = logits.shape[:2]
    _check_logits("route", logits, bias)
    if groups < 1 or experts % groups or not 1 <= groups_used <= groups:
        wanted = f"cannot take {groups_used} of {groups} equal groups of {experts} experts"
        raise ShapeError("route", wanted, logits.shape)
    allowed = experts // groups * groups_used
    if not 1 <= used <= allowed:
        raise ShapeError("route", f"cannot take {used} of {allowed} experts", logits.shape)
    arguments = Route(
        logits, bias, used=used, score=Scoring(score), groups=groups, groups_used=groups_used
    )
    return node(Op.ROUTE, I32, (used, tokens), arguments)


def route_weights(
    logits: Tensor,
    ids: Tensor,
    score: Scoring,
    *,
    normalised: bool = False,
    scale: float = 1.0,
    gains: Tensor | None = None,
) -> Tensor:
    """f32 [U, T]: the scores of the chosen experts `ids` i32 [U, T], without bias; `normalised`
    divided by their sum (at least 6.1e-5); times `scale` and each expert's own of `gains` [X].
    """
    _check_logits("route_weights", logits, gains)
    fits = ids.fmt == I32 and ids.shape[1] == logits.shape[1] and ids.shape[2:] == (1, 1)
    if not fits or ids.shape[0] > logits.shape[0]:
        wanted = "needs i32 ids [U, T] of logits [X, T]"
        raise ShapeError("route_weights", wanted, logits.shape, ids.shape)
    arguments = RouteWeights(
        logits, ids, gains, score=Scoring(score), normalised=normalised, scale=float(scale)
    )
    return node(Op.ROUTE_WEIGHTS, F32, ids.shape, arguments)


def combine(y: Tensor, weights: Tensor) -> Tensor:
    """out[:, t] = sum_u weights[u, t] y[:, u, t]: f32 [E, T] of y [E, U, T] and weights [U, T]."""
    flat = y.shape[3] == 1 and weights.shape == (*y.shape[1:3], 1, 1)
    if y.fmt != F32 or weights.fmt != F32 or not flat:
        wanted = "needs f32 y [E, U, T] and weights [U, T]"
        raise ShapeError("combine", wanted, y.shape, weights.shape)
    return node(Op.COMBINE, F32, (y.shape[0], y.shape[2]), Combine(weights, y))


def _check_logits(op: str, logits: Tensor, each: Tensor | None) -> None:
    """Raises `ShapeError` unless logits are f32 [X, T], and there is one of `each` an expert."""
    if logits.fmt != F32 or logits.shape[2:] != (1, 1):
        raise ShapeError(op, f"needs f32 logits [X, T], not {logits.fmt}", logits.shape)
    if each is not None and (each.fmt != F32 or each.dims != logits.shape[:1]):
        wanted = f"needs f32 numbers of {logits.shape[0]} experts"
        raise ShapeError(op, wanted, logits.shape, each.shape)
