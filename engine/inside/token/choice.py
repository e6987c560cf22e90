"""How sampling changes the model's probabilities, step by step."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.protocol import Alternative, ChoiceStep, Sampling, TokenChoice
from engine.runner.stepper import Logits
from engine.sampling.cuts import Candidates, Floats, log_softmax, softmax, top_k
from engine.sampling.sampler import candidates

LISTED = 20


def choice(
    logits: Logits,
    history: Sequence[int],
    params: Sampling,
    wanted: int,
    shown: Callable[[int], str],
) -> TokenChoice:
    """The steps from logits [V] to what can be drawn, given the tokens so far.

    Raises `BadSetting`, `BadLogits`.
    """
    params.check()
    ids = top_k(logits, min(LISTED, logits.size)).ids
    if wanted not in ids:
        ids = np.append(ids, wanted)
    logp = log_softmax(logits, ids)
    steps = []
    before = _all(logits)
    shares = softmax(before.logits)
    steps.append(_step("model", before, shares, 0.0, ids))
    for name, left in candidates(logits, history, params):
        gone = max(0.0, 1.0 - float(_of(shares, before, left.ids).sum()))
        before, shares = left, softmax(left.logits)
        steps.append(_step(name, left, shares, gone, ids))
    top = [Alternative(i, shown(i), p) for i, p in zip(ids.tolist(), logp.tolist(), strict=True)]
    return TokenChoice(top, steps)


def _all(logits: Logits) -> Candidates:
    return Candidates(np.arange(logits.size), logits.astype(np.float64))


def _step(
    name: str, left: Candidates, shares: Floats, removed: float, ids: NDArray[np.int64]
) -> ChoiceStep:
    some = shares[shares > 0]
    entropy = -float((some * np.log(some)).sum())
    return ChoiceStep(name, len(left.ids), removed, entropy, _of(shares, left, ids).tolist())


def _of(shares: Floats, among: Candidates, ids: NDArray[np.int64]) -> Floats:
    """The shares of tokens, 0 for those that are not among the candidates."""
    order = np.argsort(among.ids)
    at = np.searchsorted(among.ids, ids, sorter=order).clip(max=len(order) - 1)
    found = order[at]
    result: Floats = np.where(among.ids[found] == ids, shares[found], 0.0)
    return result
