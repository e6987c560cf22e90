"""The measuring tools themselves, on data whose answer is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.truth import compare

GOLDENS = Path(__file__).parent.parent / "goldens"
NAMES = ("smollm2", "gemma3")
V = 3000


def golden_of(logits: np.ndarray) -> dict[str, np.ndarray]:
    ids = np.argsort(-logits, axis=1)[:, :16]
    return {
        "sketch": compare.projection(logits),
        "square": (logits.astype(np.float64) ** 2).sum(axis=1),
        "top_ids": ids,
        "top_logits": np.take_along_axis(logits, ids, axis=1),
    }


def log_softmax(logits: np.ndarray) -> np.ndarray:
    logits = logits - logits.max(axis=-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def top_k(logp: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    ids = np.argsort(-logp, axis=-1)[..., :k]
    return ids, np.take_along_axis(logp, ids, axis=-1)


@pytest.fixture
def reference() -> np.ndarray:
    return np.random.default_rng(1).normal(2, 4, (200, V)).astype(np.float32)


def test_signs_are_a_fixed_balanced_matrix() -> None:
    matrix = compare.signs(V)
    assert matrix.shape == (V, 64)
    assert set(np.unique(matrix)) == {-1.0, 1.0}
    np.testing.assert_array_less(np.abs(matrix.mean(axis=0)), 5 / np.sqrt(V))
    gram = matrix.T @ matrix / V - np.eye(64)
    assert np.abs(gram).max() < 5 / np.sqrt(V)
    np.testing.assert_array_equal(compare.signs(10), matrix[:10])


@pytest.mark.parametrize("wanted", [1e-8, 4e-6, 1e-4, 1e-2])
def test_noise_of_a_known_size_is_measured(reference: np.ndarray, wanted: float) -> None:
    noise = np.random.default_rng(2).normal(size=reference.shape)
    noise *= np.sqrt(wanted * (reference.astype(np.float64) ** 2).sum() / (noise**2).sum())
    ours = (reference + noise).astype(np.float32)
    found = compare.nmse_from_projection(compare.projection(ours), golden_of(reference))
    assert compare.nmse(ours, reference) == pytest.approx(wanted, rel=0.02)
    assert found.overall == pytest.approx(wanted, rel=0.06)
    assert found.median == pytest.approx(wanted, rel=0.12)
    assert wanted < found.worst < 2.2 * wanted


def test_one_bad_position_is_the_worst_and_leaves_the_median(reference: np.ndarray) -> None:
    ours = reference.copy()
    ours[17] *= 0.5
    found = compare.nmse_from_projection(compare.projection(ours), golden_of(reference))
    assert found.worst == pytest.approx(0.25, rel=0.6)
    assert found.median == 0


def test_a_sparse_error_is_measured_too(reference: np.ndarray) -> None:
    ours = reference.copy()
    ours[:, 5] += 100  # one wrong row of the output matrix
    found = compare.nmse_from_projection(compare.projection(ours), golden_of(reference))
    assert found.overall == pytest.approx(compare.nmse(ours, reference), rel=1e-3)


def test_a_prefix_is_compared_with_the_same_positions(reference: np.ndarray) -> None:
    golden = golden_of(reference)
    assert compare.nmse_from_projection(compare.projection(reference[:50]), golden).worst < 1e-11
    assert compare.nmse_from_projection(compare.projection(reference[1:51]), golden).overall > 0.5


def test_agreement_and_what_the_error_explains(reference: np.ndarray) -> None:
    golden = golden_of(reference)
    ours = reference.copy()
    best, second = golden["top_ids"][3, :2]
    ours[3, second] = ours[3, best] + 1e-3
    tops = ours.argmax(axis=1)
    assert compare.agreement(tops, golden) == pytest.approx(1 - 1 / 200)
    gap = golden["top_logits"][3, 0] - golden["top_logits"][3, 1]
    # The whole error is that gap, in one of V logits: an RMS of gap / sqrt(V) does not explain it.
    assert list(compare.unexplained(tops, compare.projection(ours), golden, V)) == [3]
    noisy = ours + np.random.default_rng(3).normal(0, gap, ours.shape).astype(np.float32)
    assert not len(compare.unexplained(tops, compare.projection(noisy), golden, V))


def test_kl_of_equal_distributions_is_zero(reference: np.ndarray) -> None:
    p = top_k(log_softmax(reference), 64)
    assert compare.mean_kl(*p, *p) == 0


def test_kl_with_every_id_known_is_the_exact_one() -> None:
    rng = np.random.default_rng(4)
    p, q = (log_softmax(rng.normal(0, 2, (20, 50))) for _ in range(2))
    exact = (np.exp(p) * (p - q)).sum(axis=1)
    np.testing.assert_allclose(compare.kl(*top_k(p, 50), *top_k(q, 50)), exact, rtol=1e-9)


def test_kl_of_top_ids_is_a_close_lower_bound(reference: np.ndarray) -> None:
    logits = reference * 0.8
    noise = np.random.default_rng(5).normal(0, 0.3, logits.shape)
    p, q = log_softmax(logits), log_softmax(logits + noise)
    exact = (np.exp(p) * (p - q)).sum(axis=1)
    bound = compare.kl(*top_k(p, 64), *top_k(q, 64))
    assert (bound <= exact + 1e-9).all()
    assert bound.mean() > 0.6 * exact.mean()


def test_kl_keeps_the_leading_axes_and_does_not_mind_the_order_of_ids() -> None:
    rng = np.random.default_rng(6)
    p, q = (top_k(log_softmax(rng.normal(0, 2, (3, 5, 40))), 8) for _ in range(2))
    found = compare.kl(*p, *q)
    assert found.shape == (3, 5)
    np.testing.assert_allclose(compare.kl(p[0][..., ::-1], p[1][..., ::-1], *q), found)


@pytest.mark.parametrize("name", NAMES)
def test_stored_context_is_whole(name: str) -> None:
    """The kept logits agree with the sketch, the sum of squares and the best ids beside them."""
    golden = np.load(GOLDENS / f"{name}-context.npz")
    assert golden["tokens"].shape == (2048,)
    assert golden["sketch"].shape == (2048, 64)
    at, exact = golden["exact_at"], golden["exact"].astype(np.float32)
    squares = (exact.astype(np.float64) ** 2).sum(axis=1)
    np.testing.assert_allclose(squares, golden["square"][at], rtol=1e-4)
    np.testing.assert_array_equal(exact.argmax(axis=1), golden["top_ids"][at, 0])
    difference = compare.projection(exact) - golden["sketch"][at]
    assert (difference**2).sum() / squares.sum() < 3e-7
    best = golden["top_logits"]
    assert (best[:, :-1] >= best[:, 1:]).all()
    assert (golden["logsumexp"] > best[:, 0]).all()


@pytest.mark.parametrize("name", NAMES)
def test_stored_perplexity_run_gives_its_own_figures(name: str) -> None:
    golden = np.load(GOLDENS / f"{name}-perplexity.npz")
    chunks = len(golden["tokens"])
    assert chunks >= 8
    assert golden["tokens"].shape == (chunks, 512)
    assert golden["ids"].shape == golden["logp"].shape == (chunks, 255, 64)
    theirs = {key: golden[key] for key in ("tokens", "ids", "logp")}
    found = compare.perplexity_figures(theirs, golden)
    assert (found.agreement, found.kl) == (1, 0)
    assert 0.95 < found.f32_agreement < 0.99
    assert 0.001 < found.f32_kl < 0.008
    ratio = np.exp(golden["f32_nll"].mean() - golden["nll"].mean())
    assert ratio == pytest.approx(1, abs=0.01)


def test_other_tokens_are_refused() -> None:
    golden = dict(np.load(GOLDENS / "smollm2-perplexity.npz"))
    with pytest.raises(ValueError, match="other tokens"):
        compare.perplexity_figures({**golden, "tokens": golden["tokens"] + 1}, golden)
    with pytest.raises(ValueError, match="other ids"):
        compare.perplexity_figures({**golden, "ids": golden["ids"][..., :10]}, golden)
