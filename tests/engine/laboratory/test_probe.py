"""Linear probes against scikit-learn (tests/goldens/make_probe.py), and of known data."""

from pathlib import Path

import numpy as np
import pytest

from engine.errors import BadSetting
from engine.laboratory.probe import auc, cross_validated, fit, logistic, predicted

WANTED = Path(__file__).parents[2] / "goldens" / "probe.npz"


@pytest.mark.parametrize("name", ["tall", "wide"])
def test_two_classes_are_scikit_learns_logistic_regression(name: str) -> None:
    with np.load(WANTED) as file:
        rows, labels, coef, intercept, decisions = (
            file[f"{name}_{one}"] for one in ("rows", "labels", "coef", "intercept", "decisions")
        )
    scaled = (rows - rows.mean(0)) / rows.std(0)
    weight, bias = logistic(scaled, labels)
    np.testing.assert_allclose(weight[0], coef, atol=1e-3 * np.abs(coef).max())
    assert bias[0] == pytest.approx(intercept, abs=1e-3)
    scores = fit(rows, labels, 2).scores(rows)
    np.testing.assert_allclose(scores[:, 0], decisions, atol=1e-3 * np.abs(decisions).max())
    assert (predicted(scores) == (decisions > 0)).all()


def test_auc_counts_pairs() -> None:
    rng = np.random.default_rng(1)
    scores, labels = rng.integers(0, 9, 40).astype(float), rng.integers(0, 2, 40)
    a, b = scores[labels == 1][:, None], scores[labels == 0][None]
    assert auc(scores, labels) == pytest.approx(((a > b) + 0.5 * (a == b)).mean())


@pytest.mark.parametrize("n_classes", [2, 3])
def test_folds_keep_groups_together(n_classes: int) -> None:
    """Classes that can be told apart are; shuffled labels are not, though rows repeat in groups."""
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(30), 4)
    labels = groups % n_classes
    centres = rng.standard_normal((n_classes, 10)) * 3
    own = rng.standard_normal((30, 10))
    rows = centres[labels] + own[groups] + 0.1 * rng.standard_normal((120, 10))
    found = cross_validated(5, rows, labels, groups, n_classes)
    assert found.layer == 5
    assert found.accuracy > 0.9
    assert found.shuffled < 0.75
    assert (found.auc is None) == (n_classes == 3)
    with pytest.raises(BadSetting, match="at least 5 texts"):
        cross_validated(0, rows[:8], labels[:8], groups[:8], n_classes)
