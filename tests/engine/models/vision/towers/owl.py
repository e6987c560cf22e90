"""Owl, made up for the tests: a class row, windows over the two halves of a picture of any size,
gated blocks, pooled patches, a learned row at the end, and a tensor that is a number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.images.patches import Floats, cut, neighbours
from engine.images.plan import ImagePlan, Learned, Limits, Rows, Size, Text, View
from engine.layers.linear import Linear, RMSNorm
from engine.layers.vision.blocks import BlockSpec, GatedBlock, Patches, pooled
from engine.layers.vision.tower import TowerPass, TowerStep, bucket_of, groups
from engine.models.constants import Constant
from engine.models.vision.base import Tower, TowerParams
from engine.weights.bind import Name
from engine.weights.params import Meta, Range


@dataclass(frozen=True, kw_only=True)
class Params(TowerParams):
    """Hyperparameters; `feathers` patches along a side become a row."""

    feathers: Annotated[int, Meta("vision.feathers", Range(1, 8), alt=("feathers",))]

    def constants(self) -> Sequence[Constant]:
        return (Constant("mm.loudness.weight", (1,), Range(0, 16)),)


@dataclass(frozen=True)
class Weights:
    """The tower's and the projector's tensors."""

    patches: Annotated[Patches, Name("v.patch_embd")]
    cls: Annotated[Tensor, Name("v.class_embd")]
    blocks: Annotated[list[GatedBlock], Name("v.blk")]
    norm: Annotated[RMSNorm, Name("mm.norm")]
    output: Annotated[Linear, Name("mm.output", alt=("mm.out", "mm.hoot"))]


class Model(Tower[Params, Weights]):
    """Even blocks see everything, odd ones their half of the picture, the class row both."""

    projectors = ("owl",)
    architectures = ("owl",)
    hosts = ("llama",)
    tokens = ("<owl>",)
    markers = ("<owl>",)
    learned: Mapping[str, tuple[str, ...]] = {"hoot": ("mm.line_end",)}

    def plan(self, size: Size, limits: Limits) -> ImagePlan:
        cell = self.params.patch * self.params.feathers
        grid = Size(max(1, size.w // cell), max(1, size.h // cell))
        whole = Size(grid.w * cell, grid.h * cell)
        view = View(original=size, steps=(whole,), size=whole, grid=grid)
        return ImagePlan((view,), (Text("<owl>"), Rows(0, 0, view.rows), Learned("hoot")))

    def inputs(self, pixels: Floats, plan: ImagePlan, view: int) -> TowerStep:
        patch, merge = self.params.patch, self.params.feathers
        rows, cols = pixels.shape[0] // patch, pixels.shape[1] // patch
        order = neighbours(cols, rows, merge)
        halves = np.concatenate([np.zeros(1, np.int32), 2 * (order % cols) // cols])
        inputs = {"patches": cut(pixels, patch)[order], **groups("half", halves.astype(np.int32))}
        return TowerStep(len(order), len(order) // merge**2, inputs)

    def forward(self, p: TowerPass) -> Tensor:
        params, w = self.params, self.weights
        spec = BlockSpec(params.n_head, params.head_dim, params.eps, ops.silu)
        x = ops.concat(w.cls.reshape(params.n_embd, 1), w.patches(p, params.patch), 1)
        for i, block in enumerate(w.blocks):
            x = block(x, i, p, spec, "half" if i % 2 else "")
        x = pooled(ops.contiguous(ops.slice_(x, 1, 1, p.n + 1)), params.feathers**2)
        loudness = float(self.constants["mm.loudness.weight"][0])
        return ops.scale(w.output(w.norm(x, params.eps, "v/mm_norm")), loudness)

    def bucket(self, n: int) -> int:
        return bucket_of(n, self.params.feathers**2)

    def worst(self, limits: Limits) -> int:
        return self.bucket(self.params.side**2)
