"""Draws without sorting: the same tokens as the sorted definition leaves, as likely as it says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import BadSetting
from engine.protocol import Sampling
from engine.sampling import cuts
from engine.sampling.cuts import Drawable, drawable, narrowed
from engine.sampling.sampler import Sampler

SIZE = 40_000  # more than is looked at together


def vocabularies() -> list[np.ndarray]:
    """Peaked, spread, flat, with ties, and with tokens that cannot come."""
    rng = np.random.default_rng(5)
    spread = rng.normal(0, 3, SIZE).astype(np.float32)
    peaked = spread.copy()
    peaked[rng.integers(0, SIZE, 9)] += 12
    ties = rng.integers(-3, 3, SIZE).astype(np.float32)
    masked = np.where(rng.random(SIZE) < 0.3, spread, np.float32(-np.inf))
    few = np.full(SIZE, -np.inf, np.float32)
    few[[3, 99, SIZE - 1]] = [1.0, 0.5, 1.0]
    deep = np.where(rng.random(SIZE) < 0.5, np.float32(-1e30), spread)
    flat = np.full(SIZE, 2.5, np.float32)
    return [spread, peaked, ties, masked, few, deep.astype(np.float32), flat]


TIED = (2, 6)
SETTINGS = [
    (k, p, least)
    for k in (0, 1, 40, 700, 25_000, SIZE, 1 << 31)
    for p in (0.0, 0.3, 0.95, 1.0)
    for least in (0.0, 0.05, 1.0)
]


@pytest.mark.parametrize("number", range(7))
def test_the_same_tokens_as_the_sorted_definition(number: int) -> None:
    scores = vocabularies()[number]
    for k, p, least in SETTINGS:
        params = Sampling(0.7, k, p, least)
        *_, (_, wanted) = narrowed(scores, params)
        found = drawable(scores, params)
        ids = np.arange(SIZE) if found.ids is None else found.ids
        possible = found.logits > -np.inf
        # Of equally likely ones the last may be in or out, as sums are rounded.
        apart = np.setxor1d(ids[possible], wanted.ids)
        assert apart.size <= (1 if number in TIED else 0), (k, p, least)
        chances = np.exp((found.logits.astype(np.float64) - found.logits.max()) / found.temperature)
        by_id = np.full(SIZE, np.nan)
        by_id[ids] = chances
        both = np.isin(wanted.ids, ids)
        np.testing.assert_allclose(by_id[wanted.ids[both]], np.exp(wanted.logits[both]), rtol=1e-9)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "params",
    [
        Sampling(1.0, 0, 1.0, 0.0, seed=11),
        Sampling(1.7, 0, 1.0, 0.0, seed=12),
        Sampling(0.8, 0, 0.9, 0.0, seed=13),
        Sampling(0.8, 0, 0.95, 0.05, seed=14),
        Sampling(0.8, 600, 0.95, 0.0, seed=15),
        Sampling(0.8, 40, 0.95, 0.05, seed=16),
    ],
)
def test_draws_are_distributed_as_the_definition_says(params: Sampling) -> None:
    """Chi-square against float64, over bins of at least 25 expected draws."""
    n, size = 10_000, 2400
    logits = np.random.default_rng(3).normal(0, 2.5, size).astype(np.float32)
    *_, (_, kept) = narrowed(logits.astype(np.float64), params)
    chances = np.zeros(size)
    chances[kept.ids] = np.exp(kept.logits) / np.exp(kept.logits).sum()
    sampler = Sampler(params)
    counts = np.bincount([sampler.sample(logits, []) for _ in range(n)], minlength=size)
    assert not counts[chances == 0].any()
    often = chances * n >= 25
    expected = np.append(chances[often] * n, chances[~often].sum() * n)
    got = np.append(counts[often], counts[~often].sum())
    expected, got = expected[expected > 1], got[expected > 1]
    chi2, freedom = ((got - expected) ** 2 / expected).sum(), expected.size - 1
    assert chi2 < freedom + 4.5 * np.sqrt(2 * freedom) + 8, (chi2, freedom)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 70_000), st.floats(0, 1, exclude_max=True), st.integers(0, 2**32))
def test_a_share_falls_on_the_token_where_it_lies(n: int, share: float, seed: int) -> None:
    """Over the borders of parts, where many weigh nothing."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 3, n).astype(np.float32)
    logits[rng.random(n) < 0.4] = -np.inf
    logits[rng.integers(n)] = 0
    found = Drawable(None, logits, 0.9).at(share)
    with np.errstate(divide="ignore"):
        sums = np.cumsum(np.exp((logits.astype(np.float64) - logits.max()) / 0.9))
    sums /= sums[-1]
    assert logits[found] > -np.inf
    assert (sums[found - 1] if found else 0.0) <= share + 1e-12
    assert sums[found] >= share - 1e-12


def test_the_last_share_is_no_token_that_cannot_come() -> None:
    logits = np.float32([0, 1, -np.inf, -np.inf])
    assert Drawable(None, logits).at(np.nextafter(1.0, 0.0)) == 1
    assert Drawable(None, logits).at(1.0) == 1


def test_no_vocabulary_is_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bound by the most that is ever sorted at once."""
    sizes = []
    argsort = np.argsort
    monkeypatch.setattr(
        cuts.np, "argsort", lambda a, **how: sizes.append(a.size) or argsort(a, **how)
    )
    logits = np.random.default_rng(0).normal(0, 3, 262_144).astype(np.float32)
    for params in (Sampling(top_k=0), Sampling(top_k=0, min_p=0), Sampling(1, 0, 1, 0)):
        Sampler(params).sample(logits, [])
    assert sizes
    assert max(sizes) < 10_000


def test_bias_comes_first() -> None:
    logits = np.float32([0, 1, 2, 3])
    assert Sampler(Sampling(0), {0: 10.0}, 4).sample(logits, []) == 0
    assert Sampler(Sampling(0, repeat_penalty=9.0), {0: 10.0}, 4).sample(logits, [0]) == 3
    drawn = {Sampler(Sampling(seed=i), {3: -100.0}, 4).sample(logits, []) for i in range(200)}
    assert drawn == {0, 1, 2}
    assert logits.tolist() == [0, 1, 2, 3]
    with pytest.raises(BadSetting, match="bias: 4"):
        Sampler(Sampling(0), {4: 1.0}, 4)
