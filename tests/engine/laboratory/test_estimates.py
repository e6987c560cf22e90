"""Estimators against their formulas, written once more over whole arrays in float64."""

from math import exp, sqrt

import numpy as np
import pytest

from engine.laboratory.estimates import Estimator, coded, log_probabilities

N, V = 40, 97


@pytest.fixture
def arrays() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logits of two models [N, V], peaked enough that tails count for nothing, and tokens."""
    rng = np.random.default_rng(3)
    base = rng.standard_normal((N, V)) * 6
    other = base + rng.standard_normal((N, V)) * 0.7
    return base.astype(np.float32), other.astype(np.float32), rng.integers(0, V, N)


def by_formula(base: np.ndarray, other: np.ndarray, following: np.ndarray) -> dict[str, float]:
    p, q = (x - np.log(np.exp(x).sum(1, keepdims=True)) for x in (base, other))
    nll, nll_b = (-x[np.arange(N), following] for x in (q, p))
    kld = np.where(p > -16, np.exp(p) * (p - q), 0).sum(1)
    dp = np.exp(-nll) - np.exp(-nll_b)
    same = float((p.argmax(1) == q.argmax(1)).mean())

    def err(x: np.ndarray) -> float:
        return sqrt((float((x * x).mean()) - float(x.mean()) ** 2) / (N - 1))

    cov = (float((nll * nll_b).mean()) - float(nll.mean() * nll_b.mean())) / (N - 1)
    spread = sqrt(err(nll) ** 2 + err(nll_b) ** 2 - 2 * cov)
    rms = sqrt(float((dp * dp).mean()))
    ln = float(nll.mean() - nll_b.mean())
    return {
        "ppl": exp(nll.mean()),
        "ppl.error": exp(nll.mean()) * err(nll),
        "ppl_base": exp(nll_b.mean()),
        "ln_ratio": ln,
        "ln_ratio.error": spread,
        "ratio": exp(ln),
        "ratio.error": exp(ln) * spread,
        "kld": kld.mean(),
        "kld.error": err(kld),
        "same_top": same,
        "same_top.error": sqrt(same * (1 - same) / (N - 1)),
        "dp": dp.mean(),
        "dp.error": err(dp),
        "dp_rms": rms,
        "dp_rms.error": 0.5 / rms * err(dp * dp),
        "median": float(np.median(kld)),
        "max": kld.max(),
    }


def test_estimates_are_the_formulas(arrays: tuple[np.ndarray, ...]) -> None:
    base, other, following = arrays
    estimator = Estimator()
    for part in (slice(0, 7), slice(7, N)):
        estimator.add(base[part], other[part], following[part].tolist())
    found = estimator.estimates
    expected = by_formula(base.astype(np.float64), other.astype(np.float64), following)
    assert found.n == N
    for key, value in expected.items():
        if key == "median":
            got = found.kld_percentiles["50"]
        elif key == "max":
            got = found.kld_max
        else:
            name, _, part = key.partition(".")
            got = getattr(getattr(found, name), part or "value")
        assert got == pytest.approx(value, rel=1e-6, abs=1e-9), key
    assert 0.2 < expected["same_top"] < 1


def test_codes_of_16_bits_are_within_half_a_step(arrays: tuple[np.ndarray, ...]) -> None:
    """Over at most 16 nats below the largest; what is less likely is as likely as that."""
    base, other, following = arrays
    rows, exact = coded(base), log_probabilities(base)
    least = exact.max(1, keepdims=True) - 16
    assert rows.codes.dtype == np.uint16
    assert exact.min() < least.min()
    np.testing.assert_allclose(
        rows.rows_of(slice(None)), np.maximum(exact, least), atol=16 / 65535 / 2 * 1.05
    )
    plain, kept = Estimator(), Estimator()
    plain.add(base, other, following.tolist())
    kept.add(rows, other, following.tolist())
    assert kept.kld == pytest.approx(plain.kld, abs=1e-4)
    assert kept.kld != plain.kld


def test_ten_values_have_no_error_bar() -> None:
    rng = np.random.default_rng(0)
    estimator = Estimator()
    estimator.add(*rng.standard_normal((2, 10, 9)).astype(np.float32), list(range(9)) + [0])
    assert estimator.estimates.kld.error == estimator.estimates.ln_ratio.error == 0
