"""Our logits of a stored context against the float32 reference, on any device.

    python -m tests.truth.measure smollm2 SmolLM2-135M-Instruct.Q4_1.gguf --device host

prints the figures of the whole context of 2,048 tokens (fewer with --positions).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from engine.runner import load
from engine.settings import ACTIVATION_BITS
from tests.truth.compare import (
    Arrays,
    Nmse,
    agreement,
    nmse,
    nmse_from_projection,
    projection,
    unexplained,
)

GOLDENS = Path(__file__).parent.parent / "goldens"


class Measured(NamedTuple):
    """What one run gives. `unexplained` are positions, see `compare.unexplained`.

    `exact` pairs, for positions kept whole, the exact NMSE with the sketch's estimate of it.
    """

    positions: int
    nmse: Nmse
    agreement: float
    unexplained: list[int]
    exact: list[tuple[float, float]]

    def __str__(self) -> str:
        return (
            f"{self.positions} positions: NMSE {self.nmse.overall:.2e} "
            f"(median {self.nmse.median:.2e}, worst {self.nmse.worst:.2e}), "
            f"same top token {self.agreement:.2%}, unexplained {self.unexplained}"
        )


class HasLogits(Protocol):
    def logits(self, ids: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
        """(first position, float32 [t, V]) block by block."""


def golden_context(name: str) -> Arrays:
    """The stored context of "smollm2" or "gemma3", its arrays read once."""
    with np.load(GOLDENS / f"{name}-context.npz") as arrays:
        return dict(arrays)


def measure(model: HasLogits, golden: Arrays, positions: int) -> Measured:
    """Run the first `positions` tokens of the context and compare every position."""
    sketches, tops, exact = [], [], []
    vocabulary = golden["exact"].shape[1]
    reached = 0
    for start, logits in model.logits(golden["tokens"][:positions].tolist()):
        assert start == reached
        assert logits.shape[1] == vocabulary
        reached += len(logits)
        sketches.append(projection(logits))
        tops.append(logits.argmax(axis=1))
        for at, kept in zip(golden["exact_at"], golden["exact"], strict=True):
            if start <= at < reached:
                exact.append((at, nmse(logits[at - start], kept)))
    assert reached == positions
    ours, top_ids = np.concatenate(sketches), np.concatenate(tops)
    differing = unexplained(top_ids, ours, golden, vocabulary)
    return Measured(
        positions,
        nmse_from_projection(ours, golden),
        agreement(top_ids, golden),
        differing.tolist(),
        [(error, _estimate(ours, golden, at)) for at, error in exact],
    )


def _estimate(ours: np.ndarray, golden: Arrays, at: int) -> float:
    difference = ours[at].astype(np.float64) - golden["sketch"][at]
    return float((difference**2).sum() / golden["square"][at])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=["smollm2", "gemma3"])
    parser.add_argument("model", type=Path)
    parser.add_argument("--device", default=None)
    parser.add_argument("--positions", type=int, default=2048)
    parser.add_argument("--activations", type=int, choices=ACTIVATION_BITS, default=12)
    args = parser.parse_args()
    bits = args.activations
    with load(args.model, device=args.device, ctx=2048, activations=bits) as model:
        print(measure(model, golden_context(args.name), args.positions))


if __name__ == "__main__":
    main()
