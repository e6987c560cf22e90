"""Makes NAME.npz: python -m tests.goldens.vision.make [NAME ...]

Needs torch 2.13.0 and transformers 5.23.0.
"""

from __future__ import annotations

import sys
from importlib import import_module

import numpy as np
import torch

from tests.goldens.vision.families import FAMILIES
from tests.goldens.vision.references.common import Reference, compute, load, weights
from tests.goldens.vision.store import HERE, Case


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    for name in names or FAMILIES:
        make(name)


def make(name: str) -> None:
    """Compute and store one family, and tell whether its attention is peaked."""
    module = import_module(f"tests.goldens.vision.references.{name}")
    reference: Reference = module.REFERENCE
    state = weights(reference.model(), reference.gains, reference.seed)
    model = load(reference.model(), state)
    arrays = {f"weight/{key}": values for key, values in state.items()}
    with Peaks() as peaks:
        for case in reference.cases:
            computed = compute(reference, model, case)
            arrays |= computed.arrays()
            print(_told(computed))
    path = HERE / f"{name}.npz"
    np.savez_compressed(path, **arrays)
    count = sum(values.size for values in state.values())
    size = path.stat().st_size
    print(f"{name}: {count:,} weights, {size:,} bytes, largest share {peaks.mean():.2f}")


class Peaks:
    """The largest share that a row of attention gives to one place: the median, and its mean."""

    def __init__(self) -> None:
        self._shares: list[float] = []

    def __enter__(self) -> Peaks:
        self._softmax = torch.nn.functional.softmax
        torch.nn.functional.softmax = self._listening  # type: ignore[assignment]
        return self

    def __exit__(self, *_: object) -> None:
        torch.nn.functional.softmax = self._softmax

    def _listening(self, values: torch.Tensor, *args: object, **named: object) -> torch.Tensor:
        shares = self._softmax(values, *args, **named)  # type: ignore[arg-type]
        if values.ndim == 4:
            self._shares.append(float(shares.amax(-1).median()))
        return shares

    def mean(self) -> float:
        return float(np.mean(self._shares)) if self._shares else float("nan")


def _told(case: Case) -> str:
    seen = ", ".join(f"{len(s.views)} views {s.rows.shape} {s.rows.std():.2f}" for s in case.seen)
    close = int((case.margins < 0.01).sum())
    told = f"{len(case.ids)} tokens; {seen}; logits {case.logits.std():.2f}"
    return f"  {case.name}: {told}; {close} near ties; {case.greedy.tolist()}"


if __name__ == "__main__":
    main(sys.argv[1:])
