"""Makes probe.npz: python -m tests.goldens.make_probe. Needs scikit-learn.

Rows f64 [n, E] and labels of two classes, with what LogisticRegression (C = 1) finds of the
standardised rows: coef [E], intercept, and decisions [n]; of more columns than rows (`wide`), too.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def main() -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    rng, made = np.random.default_rng(4), {}
    for name, n, width in (("tall", 60, 12), ("wide", 20, 48)):
        rows = rng.standard_normal((n, width)) * rng.uniform(0.2, 5, width) + rng.uniform(-3, 3)
        labels = (rows @ rng.standard_normal(width) + rng.standard_normal(n) * 6 > 0).astype(int)
        scaled = StandardScaler().fit_transform(rows)
        found = LogisticRegression(C=1.0, tol=1e-12, max_iter=100_000).fit(scaled, labels)
        made |= {
            f"{name}_rows": rows,
            f"{name}_labels": labels,
            f"{name}_coef": found.coef_[0],
            f"{name}_intercept": found.intercept_[0],
            f"{name}_decisions": found.decision_function(scaled),
        }
    np.savez_compressed(HERE / "probe.npz", **made)


if __name__ == "__main__":
    main()
