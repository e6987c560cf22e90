"""Alternating updates: four streams, of which a layer computes one and predicts the others.

Baykal et al. 2023, as Gemma 3n has it. Streams are one tensor [E, 4, T], the computed one first.
"""

from dataclasses import dataclass
from math import inf
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.linear import Linear, RMSNorm
from engine.weights.bind import Name

STREAMS = 4
FLOOR = 1e-5
"""Of a mean square, before something is divided by its root."""


def first(streams: Tensor) -> Tensor:
    """The stream that is computed, [E, T] of [E, 4, T]."""
    return ops.contiguous(ops.slice_(streams, 1, 0, 1), streams.shape[0], streams.shape[2])


def others(streams: Tensor) -> Tensor:
    """The rest, [E, 3, T] of [E, 4, T]."""
    return ops.slice_(streams, 1, 1, STREAMS)


@dataclass(frozen=True)
class Unfolding:
    """Into streams before the first layer, and back behind the last: matrices [E, E, 3]."""

    into: Annotated[Linear, Name("altup_proj")]
    back: Annotated[Linear, Name("altup_unembd_proj")]

    def streams(self, x: Tensor) -> Tensor:
        """x [E, T] -> [E, 4, T]: products of x, as large as x itself."""
        n_embd, n = x.shape[:2]
        each = ops.repeat(x.reshape(n_embd, n, 1), 2, STREAMS - 1)
        made = _as_large(self.into(each, "altup_proj"), x)
        made = ops.contiguous(made.permute(0, 2, 1, 3))
        return ops.concat(x.reshape(n_embd, 1, n), made, 1).named("inp_streams")

    def merged(self, streams: Tensor) -> Tensor:
        """[E, 4, T] -> [E, T]: the mean of the first and of products of the others."""
        x = first(streams)
        made = self.back(ops.contiguous(others(streams).permute(0, 2, 1, 3)), "altup_unembd")
        made = _as_large(made, x)
        for j in range(STREAMS - 1):
            x = ops.add(x, ops.slice_(made, 2, j, j + 1).reshape(*x.dims))
        return ops.scale(x, 1 / STREAMS).named("streams_merged")


@dataclass(frozen=True)
class AltUp:
    """Updates of the streams that a layer does not compute itself."""

    router: Annotated[Linear, Name("altup_router")]
    router_norm: Annotated[RMSNorm, Name("altup_router_norm")]
    predict_coef: Annotated[Linear, Name("altup_predict_coef")]
    correct_coef: Annotated[Linear, Name("altup_correct_coef")]
    correct_scale: Annotated[Tensor, Name("altup_correct_scale.weight")]

    def predicted(self, streams: Tensor, i: int, eps: float) -> Tensor:
        """[E, 4, T] before layer i -> what it is expected to make of them."""
        n = streams.shape[2]
        modes = self._modes(first(streams), i, eps)
        coef = self.predict_coef(modes, "altup_predict_coef", i).reshape(STREAMS, STREAMS, n)
        mixed = ops.matmul(ops.contiguous(streams.permute(1, 0, 2, 3)), coef)
        return ops.add(mixed, streams).named("altup_predicted", i)

    def corrected(self, predicted: Tensor, y: Tensor, i: int, eps: float) -> Tensor:
        """All streams [E, 4, T], now that the first is known to be y [E, T]."""
        n_embd, n = y.shape[:2]
        coef = self.correct_coef(self._modes(y, i, eps), "altup_correct_coef", i)
        news = ops.sub(y, first(predicted)).reshape(n_embd, 1, n)
        news = ops.repeat(news, 1, STREAMS)
        news = ops.add(news, ops.mul(news, coef.reshape(1, STREAMS, n)))
        return ops.add(predicted, news).named("altup_corrected", i)

    def _modes(self, x: Tensor, i: int, eps: float) -> Tensor:
        """[4, T], between -1 and 1."""
        seen = ops.scale(self.router_norm(x, eps, "altup_router_norm", i), 1 / x.shape[0])
        return ops.tanh(self.router(seen)).named("altup_modes", i)


def _as_large(x: Tensor, like: Tensor) -> Tensor:
    """x [E, T, 3] times what makes each row's root mean square that of `like` [E, T]."""
    square = ops.clamp(ops.mean(ops.sqr(x)), FLOOR, inf)
    wanted = ops.sqrt(ops.mean(ops.sqr(like))).reshape(1, like.shape[1], 1)
    wanted = ops.repeat(wanted, 2, x.shape[2])
    return ops.mul(x, ops.div(wanted, ops.sqrt(square)))
