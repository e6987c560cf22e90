"""Sums of squares of what enters each product: llama.cpp's importance matrix (tools/imatrix)."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.errors import BadSetting
from engine.graph.tensor import Tensor
from engine.laboratory.rows import Product, product_inputs, read_parts
from engine.runner.loading import LoadedModel
from engine.runner.stepper import StartedStep

Sums = NDArray[np.float64]
STEP, LEAST = 64, 16
"""Tokens of a step, and the rows that a product needs to count."""


class InputSquares:
    """Sums `sums` [matrices, K] of x² and their `counts` [matrices] by a weight's name; a weight
    has a matrix for each expert, else one.
    """

    def __init__(self, model: LoadedModel, with_output: bool = False) -> None:
        self.sums: dict[str, Sums] = {}
        self.counts: dict[str, Sums] = {}
        self._stepper = model.stepper
        self.probes = product_inputs(model.built, with_output)
        graph = model.stepper.one_token().graph
        for one in self.probes.products(graph):
            n_mat = 1 if one.ids is None else one.weight.shape[2]
            self.sums[one.name] = np.zeros((n_mat, one.x.shape[0]))
            self.counts[one.name] = np.zeros(n_mat)

    def add_chunk(self, tokens: Sequence[int]) -> None:
        """Compute tokens in a fresh context and add what enters their products."""
        try:
            for part in read_parts(self._stepper, tokens, self.probes, STEP):
                self.add(part.step, len(part.logits))
        finally:
            self._stepper.end_probes()
            self._stepper.forget(0)

    def add(self, step: StartedStep, n_tokens: int) -> None:
        """Add a finished step in which the inputs were probed."""
        values: Mapping[Tensor, NDArray[np.float32]]
        values = {one.node: one.values for one in step.probed() if one.node is not None}
        for product in self.probes.products(step.plan.outline.graph):
            if n_tokens >= LEAST and product.x in values:
                rows = product.rows(values[product.x], n_tokens)
                ids = None if product.ids is None else values[product.ids]
                self._add(product, rows, ids)

    def _add(
        self, product: Product, rows: NDArray[np.float32], ids: NDArray[np.float32] | None
    ) -> None:
        sums, counts = self.sums[product.name], self.counts[product.name]
        squares = np.square(rows, dtype=np.float64)  # [T, s, K]
        if ids is None:
            sums[0] += squares.sum(axis=(0, 1))
            counts[0] += rows.shape[0] * rows.shape[1]
            return
        used = product.ids.shape[0] if product.ids is not None else 1
        chosen: NDArray[np.int64]  # [T, U]
        chosen = ids.reshape(-1, used)[: len(rows)].astype(np.int64)
        for slot in range(chosen.shape[1]):
            index = chosen[:, slot]
            np.add.at(sums, index, squares[:, slot % squares.shape[1]])
            np.add.at(counts, index, 1.0)

    @property
    def planned(self) -> int:
        """Bytes of the sums."""
        return sum(one.nbytes for one in (*self.sums.values(), *self.counts.values()))

    @property
    def arrays(self) -> dict[str, Sums]:
        """All of them by name, to be saved."""
        found = {f"{name}.sums": one for name, one in self.sums.items()}
        return found | {f"{name}.counts": one for name, one in self.counts.items()}

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Continue from arrays of an earlier run. Raises `BadSetting` if they do not fit."""
        for name, own in self.arrays.items():
            held = arrays.get(name)
            if held is None or held.shape != own.shape:
                raise BadSetting("resume", name, "a recording of this model with these options")
            own[...] = held

    def means(self, name: str) -> Sums | None:
        """E[x²] [K] over all matrices; None for a weight without a product."""
        if name not in self.sums or not self.counts[name].any():
            return None
        mean: Sums = self.sums[name].sum(axis=0) / max(1.0, float(self.counts[name].sum()))
        return mean
