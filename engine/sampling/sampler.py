"""Drawing the next token: bias and penalties, then what `cuts` leave of the vocabulary."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import isfinite
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from engine.errors import BadSetting, CutawayError
from engine.protocol import Sampling
from engine.sampling.cuts import (
    GREEDY,
    AnyFloats,
    Candidates,
    Drawable,
    drawable,
    is_few,
    narrowed,
    narrowed_further,
)

NO_BIAS: Mapping[int, float] = MappingProxyType({})


class BadLogits(CutawayError):
    """The model's output cannot be sampled from."""

    def __init__(self) -> None:
        super().__init__(
            "the logits are not numbers; the file may be damaged or the device may compute wrongly"
            " (try `cutaway doctor`, or --device host)"
        )


class Sampler:
    """Draws tokens by fixed settings from one random stream; equal seeds give equal draws.

    `bias` is added to the logits of tokens by their ids, of which there are `size`, before anything
    else. Those in `never` are not drawn.
    """

    def __init__(
        self,
        params: Sampling,
        bias: Mapping[int, float] = NO_BIAS,
        size: int = 0,
        never: Collection[int] = (),
    ) -> None:
        params.check()
        for token, value in bias.items():
            if not 0 <= token < size:
                raise BadSetting("bias", token, f"ids from 0 to {size - 1}")
            if not isfinite(value):
                raise BadSetting("bias", value, f"a finite number for token {token}")
        self.params = params
        self._biased = np.fromiter(bias, np.int64, len(bias))
        self._bias = np.fromiter(bias.values(), np.float32, len(bias))
        self._never = np.fromiter(never, np.int64, len(never))
        self.seed: int = (
            int(np.random.SeedSequence().generate_state(1)[0])
            if params.seed is None
            else params.seed
        )
        self._random = np.random.Generator(np.random.PCG64(self.seed))

    def sample(self, logits: NDArray[np.float32], history: Sequence[int]) -> int:
        """The next token from logits [V], given the tokens so far. Raises `BadLogits`."""
        scores = _penalized(self._with_bias(logits), history, self.params)
        return drawable(scores, self.params).at(self._random.random())

    def draws_from(self, n: int, n_vocab: int) -> bool:
        """True if the `n` largest of so many logits are all that a token is drawn from."""
        top_k, n = self.params.top_k, n - self._never.size  # which may be the largest
        is_greedy = self.params.temperature <= GREEDY and n > 0
        few = is_greedy or (top_k <= n and is_few(top_k, n_vocab))
        return few and not self._biased.size and _is_neutral(self.params)

    def choose(self, best: Candidates) -> int:
        """The token that `sample` would draw, from the largest logits alone: `draws_from`. Raises
        `BadLogits`.
        """
        if not isfinite(best.logits[0]):
            raise BadLogits
        if self._never.size:
            kept = ~np.isin(best.ids, self._never)
            best = Candidates(best.ids[kept], best.logits[kept])
        params = self.params
        n = 1 if params.temperature <= GREEDY else params.top_k
        drawn = best.logits[:n] > -np.inf
        few = Candidates(best.ids[:n][drawn], best.logits[:n][drawn])
        if n > 1:
            *_, (_, few) = narrowed_further(few, params)
        return Drawable(few.ids, few.logits).at(self._random.random())

    def _with_bias(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        if not (self._biased.size or self._never.size):
            return logits
        biased = logits.copy()
        biased[self._biased] += self._bias
        biased[self._never] = -np.inf
        return biased


def candidates(
    logits: AnyFloats, history: Sequence[int], params: Sampling
) -> Iterator[tuple[str, Candidates]]:
    """Each step from logits [V] to what `Sampler.sample` draws from, and what it leaves: penalties,
    then those of `narrowed`. Raises `BadLogits`.
    """
    scores = _penalized(logits, history, params)
    yield "penalties", Candidates(np.arange(scores.size), scores.astype(np.float64))
    yield from narrowed(scores, params)


def _penalized(logits: AnyFloats, history: Sequence[int], params: Sampling) -> AnyFloats:
    scores = penalize(logits, history, params)
    if not np.isfinite(scores.max()):  # the maximum of anything with a NaN is NaN
        raise BadLogits
    return scores


def penalize(logits: AnyFloats, history: Sequence[int], params: Sampling) -> AnyFloats:
    """Penalise used tokens: logit / repeat (or * repeat below 0), minus count * frequency and
    presence, for the tokens among the last `penalty_last_n`.
    """
    n = params.penalty_last_n
    recent = history if n < 0 else history[max(0, len(history) - n) :]
    if _is_neutral(params) or not recent:
        return logits
    ids, counts = np.unique(np.asarray(recent), return_counts=True)
    seen = logits[ids].astype(np.float64)
    seen = np.where(seen <= 0, seen * params.repeat_penalty, seen / params.repeat_penalty)
    lowered = logits.copy()
    lowered[ids] = seen - counts * params.frequency_penalty - params.presence_penalty
    return lowered


def _is_neutral(params: Sampling) -> bool:
    return (
        params.repeat_penalty == 1.0
        and params.frequency_penalty == 0.0
        and params.presence_penalty == 0.0
    )
