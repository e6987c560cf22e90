"""The numbers of one block, made by an architecture's params: all that its layers know of it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.graph import ops
from engine.graph.ops.experts import Scoring
from engine.graph.tensor import Tensor
from engine.layers.rope import RopeParams


@dataclass(frozen=True)
class Temperature:
    """The factor of queries far back in a long context: at position p
    1 + rise * ln(1 + floor((p + offset) / length)) (Llama 4, Ministral 3).
    """

    rise: float
    length: int
    offset: int = 0

    def factors(self, positions: NDArray[np.int32]) -> NDArray[np.float32]:
        """For positions [T]: [T, 1, 1]."""
        steps = (positions.astype(np.int64) + self.offset) // self.length
        return (1 + self.rise * np.log1p(steps)).astype(np.float32)[:, None, None]


@dataclass(frozen=True)
class AttentionSpec:
    """Parameters of attention; `rope` None leaves queries and keys as they are.

    `scale` multiplies scores, `softcap` c > 0 bounds them by c tanh(s / c). `eps` belongs to the
    norms of queries and keys, `bare_eps` to norms of them without weights, which are the same on
    either side of the turning, `value_eps` to one of values. Queries are multiplied by their
    `temperature` before they turn. Where no cells are kept, a token sees others up to `reach`
    places away on both sides, None: all. `clamp` c > 0 bounds queries, keys and values as they are
    projected to [-c, c]. Values are multiplied by `value_scale`. Scores fall with the distance,
    where `alibi` is above 0, as in `ops.attention`.
    """

    n_head: int
    n_head_kv: int
    head_dim: int
    scale: float
    eps: float
    rope: RopeParams | None
    bare_eps: float | None = None
    value_eps: float | None = None
    temperature: Temperature | None = None
    softcap: float = 0.0
    reach: int | None = None
    clamp: float = 0.0
    value_scale: float = 1.0
    alibi: float = 0.0


@dataclass(frozen=True)
class RecurrenceSpec:
    """Parameters of a recurrence: `heads` of a matrix [dim, size] each, in `groups` that share
    keys.

    `tiled`: head j is of group j mod groups, else neighbours are together. Steps of time are at
    least `least_step`. `normed`: they and keys are normalised first.
    """

    dim: int
    size: int
    heads: int
    groups: int
    tiled: bool = False
    least_step: float = 0.0
    normed: bool = False

    @property
    def elements(self) -> int:
        """Elements of the state."""
        return self.dim * self.size * self.heads


@dataclass(frozen=True)
class RouteSpec:
    """Parameters of routing: `used` of `experts`, by which `score` of the router's logits.

    Weights are divided by their sum where `normalised`, and multiplied by `scale`. Only the best
    `groups_used` of `groups` are open (engine/graph/ops/experts.py). `fed`: an expert is fed with
    the token times its weight, in place of what it makes being multiplied (Llama 4).
    """

    experts: int
    used: int
    score: Scoring = Scoring.SOFTMAX
    normalised: bool = False
    scale: float = 1.0
    groups: int = 1
    groups_used: int = 1
    fed: bool = False


@dataclass(frozen=True)
class GatedActivation:
    """An activation of gate and up, f32 [F, T] each, or of one alone; what its result is called."""

    activation: Callable[[Tensor, Tensor | None], Tensor]
    name: str


SWIGLU = GatedActivation(ops.silu, "ffn_swiglu")
GEGLU = GatedActivation(ops.gelu, "ffn_geglu")
GELU = GatedActivation(ops.gelu, "ffn_gelu")
RELU = GatedActivation(ops.relu, "ffn_relu")
RELU_SQR = GatedActivation(lambda x, up: ops.sqr(ops.relu(x, up)), "ffn_relu_sqr")
GEGLU_ERF = GatedActivation(ops.gelu_erf, "ffn_geglu")
GELU_ERF = GatedActivation(ops.gelu_erf, "ffn_gelu")


@dataclass(frozen=True)
class BlockSpec:
    """Parameters of a block: its attention, its feed-forward's activation, its norms' offset;
    `route` shows which experts a token meets, where there are.

    Norms behind attention and feed-forward add `post_eps` where they have another; what both give
    is multiplied by `residual`. `recurrence` is None where nothing is carried, or a convolution
    alone. Gates below their mean plus `sparse` standard deviations count as 0. `parallel`: the
    feed-forward reads what enters the block, as attention does (GPT-NeoX). `gated_experts` is the
    activation of chosen experts where they have another.
    """

    attention: AttentionSpec
    gated: GatedActivation
    eps: float
    route: RouteSpec | None = None
    post_eps: float | None = None
    residual: float = 1.0
    recurrence: RecurrenceSpec | None = None
    sparse: float | None = None
    parallel: bool = False
    gated_experts: GatedActivation | None = None
