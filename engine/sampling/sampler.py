"""Drawing the next token: penalties, top-k, top-p, min-p, temperature, in llama.cpp's order."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from engine.errors import BadSetting, CutawayError
from engine.protocol import Sampling

Floats = NDArray[np.float64]
AnyFloats = NDArray[np.floating]
GREEDY = 0.0
NO_BIAS: Mapping[int, float] = MappingProxyType({})

_COLUMNS = 1024  # a vocabulary is looked at as rows of so many
_PART = 1 << 14  # what stays in a core's own cache


class BadLogits(CutawayError):
    """The model's output cannot be sampled from."""

    def __init__(self) -> None:
        super().__init__(
            "the logits are not numbers; the file may be damaged or the device may compute wrongly"
            " (try `cutaway doctor`, or --device host)"
        )


@dataclass(frozen=True)
class Candidates:
    """Tokens that can still be drawn, most likely first, and their logits."""

    ids: NDArray[np.int64]
    logits: Floats


class Sampler:
    """Draws tokens by fixed settings from one random stream; equal seeds give equal draws.

    `bias` is added to the logits of tokens by their ids, of which there are `size`, before anything
    else.
    """

    def __init__(
        self, params: Sampling, bias: Mapping[int, float] = NO_BIAS, size: int = 0
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
        self.seed: int = (
            int(np.random.SeedSequence().generate_state(1)[0])
            if params.seed is None
            else params.seed
        )
        self._random = np.random.Generator(np.random.PCG64(self.seed))

    def sample(self, logits: NDArray[np.float32], history: Sequence[int]) -> int:
        """The next token from logits [V], given the tokens so far. Raises `BadLogits`."""
        scores = _penalized(self._with_bias(logits), history, self.params)
        *_, (_, kept) = narrowed(scores, self.params)
        if self.params.temperature <= GREEDY:
            return int(kept.ids[0])
        running = np.cumsum(np.exp(kept.logits))
        drawn = self._random.random() * running[-1]
        return int(kept.ids[min(np.searchsorted(running, drawn, "right"), len(running) - 1)])

    def _with_bias(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        if not self._biased.size:
            return logits
        biased = logits.copy()
        biased[self._biased] += self._bias
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


def narrowed(scores: AnyFloats, params: Sampling) -> Iterator[tuple[str, Candidates]]:
    """Each step that follows penalties, and what it leaves; of the last, the temperature, each is
    drawn as likely as the softmax of the logits says, whose largest is 0.
    """
    if params.temperature <= GREEDY:
        yield "temperature", Candidates(np.argmax(scores, keepdims=True), np.zeros(1))
        return
    kept = top_k(scores, params.top_k)
    yield "top_k", kept
    kept = top_p(kept, params.top_p)
    yield "top_p", kept
    kept = min_p(kept, params.min_p)
    yield "min_p", kept
    scaled = (kept.logits - kept.logits[0]) / params.temperature
    yield "temperature", Candidates(kept.ids, scaled)


def penalize(logits: AnyFloats, history: Sequence[int], params: Sampling) -> AnyFloats:
    """Penalise used tokens: logit / repeat (or * repeat below 0), minus count * frequency and
    presence, for the tokens among the last `penalty_last_n`.
    """
    n = params.penalty_last_n
    recent = history if n < 0 else history[max(0, len(history) - n) :]
    neutral = (
        params.repeat_penalty == 1.0
        and params.frequency_penalty == 0.0
        and params.presence_penalty == 0.0
    )
    if neutral or not recent:
        return logits
    ids, counts = np.unique(np.asarray(recent), return_counts=True)
    seen = logits[ids].astype(np.float64)
    seen = np.where(seen <= 0, seen * params.repeat_penalty, seen / params.repeat_penalty)
    lowered = logits.copy()
    lowered[ids] = seen - counts * params.frequency_penalty - params.presence_penalty
    return lowered


def top_k(logits: AnyFloats, k: int) -> Candidates:
    """The k largest, sorted; all of them where k <= 0."""
    few = 0 < k <= min(_COLUMNS // 2, logits.size // 4)
    ids = _near_the_top(logits, k) if few else np.arange(logits.size)
    order = np.argsort(-logits[ids], kind="stable")
    ids = ids[order[: k if k > 0 else None]]
    return Candidates(ids, logits[ids].astype(np.float64))


def _near_the_top(logits: AnyFloats, k: int) -> NDArray[np.int64]:
    """Few tokens with the k largest among them: much quicker than partitioning a vocabulary.

    What k columns have at least, k tokens have.
    """
    columns = min(_COLUMNS, logits.size)
    whole = logits.size // columns * columns
    highest = logits[:whole].reshape(-1, columns).max(0)
    least = np.partition(highest, columns - k)[columns - k]
    among = np.flatnonzero(highest >= least) + np.arange(0, whole, columns)[:, None]
    ids = np.append(among.reshape(-1), np.arange(whole, logits.size))
    found: NDArray[np.int64] = np.sort(ids[logits[ids] >= least])
    return found


def top_p(c: Candidates, p: float) -> Candidates:
    """The most likely tokens whose probabilities sum to p, as few as do; at least one."""
    if p >= 1.0:
        return c
    total = np.cumsum(softmax(c.logits))
    keep = int(np.searchsorted(total, p, "left")) + 1
    return Candidates(c.ids[:keep], c.logits[:keep])


def min_p(c: Candidates, p: float) -> Candidates:
    """Tokens at least p times as likely as the most likely one."""
    if p <= 0.0:
        return c
    keep = max(1, int(np.count_nonzero(c.logits >= c.logits[0] + np.log(p))))
    return Candidates(c.ids[:keep], c.logits[:keep])


def softmax(logits: Floats) -> Floats:
    """Probabilities of logits."""
    weights = np.exp(logits - logits.max())
    total: Floats = weights / weights.sum()
    return total


def log_softmax(logits: NDArray[np.float32], ids: NDArray[np.int64]) -> Floats:
    """Natural log-probabilities of some tokens by the raw logits [V]."""
    top, total = logits.max(), 0.0
    for start in range(0, logits.size, _PART):
        part = logits[start : start + _PART] - top
        total += float(np.exp(part, out=part).sum())
    result: Floats = logits[ids].astype(np.float64) - (float(top) + np.log(total))
    return result
