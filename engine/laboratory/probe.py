"""Linear probes: classes of texts read from a layer, with cross-validation and shuffled labels.

Two classes: logistic regression with an L2 penalty (C = 1), by Newton's method on standardised
rows, as scikit-learn's LogisticRegression minimises it. More: ridge regression to one-hot labels.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.errors import BadSetting
from engine.protocol import ProbeFit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FOLDS, SEED = 5, 0
STEPS, ENOUGH = 100, 1e-10
RIDGE = 1.0


class Linear(NamedTuple):
    """Scores of classes: rows @ weight.T + bias; of two classes one row [1, E]."""

    weight: Floats
    bias: Floats

    def scores(self, rows: Floats) -> Floats:
        """[rows, classes], or [rows, 1]."""
        scores: Floats = rows @ self.weight.T + self.bias
        return scores


def fit(rows: Floats, labels: Ints, n_classes: int) -> Linear:
    """A probe of rows [n, E] with labels from 0 on; weights are of rows as they are."""
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    scaled = (rows - mean) / spread
    if n_classes == 2:
        weight, bias = logistic(scaled, labels)
    else:
        weight, bias = _ridge(scaled, labels, n_classes)
    weight = weight / spread
    return Linear(weight, bias - weight @ mean)


def logistic(x: Floats, labels: Ints, c: float = 1.0) -> tuple[Floats, Floats]:
    """Weight [1, E] and bias [1] that minimise |w|²/2 + C · sum of ln(1 + exp(-y z))."""
    n, width = x.shape
    if n < width:  # the minimum is in the span of the rows
        basis, _ = np.linalg.qr(x.T)
        weight, bias = logistic(x @ basis, labels, c)
        return weight @ basis.T, bias
    ones = np.hstack([x, np.ones((n, 1))])
    penalty = np.append(np.ones(width), 0.0)
    beta = np.zeros(width + 1)

    def loss(at: Floats) -> float:
        margins = np.where(labels == 1, -1.0, 1.0) * (ones @ at)
        return float(0.5 * (penalty * at * at).sum() + c * np.logaddexp(0, margins).sum())

    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-np.clip(ones @ beta, -500, 500)))
        gradient = penalty * beta + c * ones.T @ (p - labels)
        if float(np.abs(gradient).max()) < ENOUGH * max(1.0, c * n):
            break
        hessian = np.diag(penalty) + c * (ones.T * (p * (1 - p))) @ ones
        step = np.linalg.lstsq(hessian, gradient, rcond=None)[0]
        size, now = 1.0, loss(beta)
        while size > 1e-8 and loss(beta - size * step) > now:
            size /= 2
        beta = beta - size * step
    return beta[None, :-1], beta[-1:]


def _ridge(x: Floats, labels: Ints, n_classes: int) -> tuple[Floats, Floats]:
    targets = np.eye(n_classes)[labels]
    mean = targets.mean(axis=0)
    inner = x @ x.T + RIDGE * np.eye(len(x)) if len(x) < x.shape[1] else None
    if inner is not None:
        weight = np.linalg.solve(inner, targets - mean).T @ x
    else:
        weight = np.linalg.solve(x.T @ x + RIDGE * np.eye(x.shape[1]), x.T @ (targets - mean)).T
    return weight, mean


def predicted(scores: Floats) -> Ints:
    """The class of each row of scores."""
    if scores.shape[1] == 1:
        return (scores[:, 0] > 0).astype(np.int64)
    found: Ints = scores.argmax(axis=1)
    return found


def auc(scores: Floats, labels: Ints) -> float:
    """The share of pairs of both classes in the right order; equal ones count a half."""
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    first = np.searchsorted(ordered, ordered, "left")
    end = np.searchsorted(ordered, ordered, "right")
    ranks = np.empty(len(scores))
    ranks[order] = (first + end + 1) / 2
    positive = labels == 1
    n, m = int(positive.sum()), int((~positive).sum())
    return (float(ranks[positive].sum()) - n * (n + 1) / 2) / max(1, n * m)


def cross_validated(
    layer: int, rows: Floats, labels: Ints, groups: Ints, n_classes: int
) -> ProbeFit:
    """Folds by example: rows of a group stay together. Raises `BadSetting` for too few."""
    rng = np.random.default_rng(SEED)
    examples = np.unique(groups)
    if len(examples) < FOLDS or len(np.unique(labels)) < 2:
        found = f"{len(examples)} texts of {len(np.unique(labels))} classes"
        raise BadSetting("probe", found, f"at least {FOLDS} texts of two classes")
    fold_of = dict(
        zip(rng.permutation(examples).tolist(), np.arange(len(examples)) % FOLDS, strict=True)
    )
    folds = np.array([fold_of[one] for one in groups.tolist()])
    by_example = {one: int(labels[groups == one][0]) for one in examples.tolist()}
    mixed = dict(zip(by_example, rng.permutation(list(by_example.values())).tolist(), strict=True))
    shuffled = np.array([mixed[one] for one in groups.tolist()])
    accuracy, aucs = _folded(rows, labels, folds, n_classes)
    chance, _ = _folded(rows, shuffled, folds, n_classes)
    error = float(np.std(accuracy, ddof=1) / np.sqrt(len(accuracy))) if len(accuracy) > 1 else 0.0
    area = float(np.mean(aucs)) if n_classes == 2 and aucs else None
    return ProbeFit(layer, float(np.mean(accuracy)), error, area, float(np.mean(chance)))


def _folded(
    rows: Floats, labels: Ints, folds: Ints, n_classes: int
) -> tuple[list[float], list[float]]:
    accuracy, aucs = [], []
    for fold in range(FOLDS):
        held = folds == fold
        if not held.any() or len(np.unique(labels[~held])) < 2:
            continue
        scores = fit(rows[~held], labels[~held], n_classes).scores(rows[held])
        accuracy.append(float((predicted(scores) == labels[held]).mean()))
        if n_classes == 2 and len(np.unique(labels[held])) == 2:
            aucs.append(auc(scores[:, 0], labels[held]))
    return accuracy or [0.0], aucs
