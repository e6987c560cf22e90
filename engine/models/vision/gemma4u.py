"""Gemma 4 12B: no tower; squares of pixels become rows by norms and two matrices.

Gemma Team 2026. A square is as large as those that the other models' towers average.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.images.patches import Floats, cut
from engine.images.plan import ImagePlan, Limits
from engine.layers.linear import Linear
from engine.layers.vision.blocks import LayerNorm, Patches, matrix
from engine.layers.vision.tower import TowerPass, TowerStep, bucket_of
from engine.models.vision.gemma4 import PictureParams, PlacedTower
from engine.weights.bind import Name
from engine.weights.params import COUNT, Meta, Range

EPS = 1e-5
"""Of the layer norms; that of the file belongs to the last norm."""
NONE = Range(0, COUNT.high)


@dataclass(frozen=True, kw_only=True)
class Params(PictureParams):
    """Hyperparameters; converters write zeros for those of blocks."""

    n_layer: Annotated[int, Meta("vision.block_count", Range(0, 0))] = 0
    n_head: Annotated[int, Meta("vision.attention.head_count", NONE)] = 0


@dataclass(frozen=True)
class Weights:
    """The projector's tensors; positions [E, N, 2] of columns and of rows."""

    pixel_norm: Annotated[LayerNorm, Name("v.patch_norm.1")]
    patches: Annotated[Patches, Name("v.patch_embd")]
    patch_norm: Annotated[LayerNorm, Name("v.patch_norm.2")]
    positions: Annotated[Tensor, Name("v.position_embd.weight")]
    place_norm: Annotated[LayerNorm, Name("v.patch_norm.3")]
    projection: Annotated[Linear, Name("mm.input_projection")]

    @property
    def blocks(self) -> Sequence[object]:
        return ()


class Model(PlacedTower[Params, Weights]):
    """Plans have buckets of squares."""

    projectors = ("gemma4uv",)

    def inputs(self, pixels: Floats, plan: ImagePlan, view: int) -> TowerStep:
        cell = self.params.cell
        rows, cols = pixels.shape[0] // cell, pixels.shape[1] // cell
        y, x = np.divmod(np.arange(rows * cols, dtype=np.int32), np.int32(cols))
        patches = cut(pixels, cell)
        inputs = {"patches": patches, "column": x, "row": y + np.int32(self.n_places)}
        return TowerStep(len(patches), len(patches), inputs)

    def forward(self, p: TowerPass) -> Tensor:
        params, w = self.params, self.weights
        kernel = matrix(w.patches.weight, params.cell)
        x = w.pixel_norm(p.floats("patches", kernel.shape[0], p.n), EPS, "v/inp_normed")
        x = Linear(kernel, w.patches.bias, None)(x, "v/inp")
        x = w.patch_norm(x, EPS, "v/patch_normed")
        x = ops.add(x, self.placed(p, params.tokens)).named("v/pos_embd")
        x = w.place_norm(x, EPS, "v/pos_normed")
        return w.projection(ops.rms_norm(x, None, params.eps), "v/projected")

    def bucket(self, n: int) -> int:
        return bucket_of(n, 1)

    def worst(self, limits: Limits) -> int:
        most = self.params.tokens
        return self.bucket(min(most, limits.rows or most))
