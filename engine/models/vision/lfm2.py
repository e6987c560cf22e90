"""LFM2-VL: SigLIP 2 for pictures of any size; a large one in squares, and whole besides.

Liquid AI 2025; the tower is that of Tschannen et al. 2025. Learned positions are a square that is
stretched or shrunk to the picture's grid.
"""

from dataclasses import dataclass
from math import isqrt
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.images import layouts
from engine.images.patches import Floats, cut, neighbours
from engine.images.plan import ImagePlan, Limits, Size
from engine.images.tiles import MOST_ASPECT
from engine.layers.linear import Linear
from engine.layers.vision.blocks import Block, BlockSpec, LayerNorm, Patches, merged
from engine.layers.vision.stretch import mixed, shrunk, square_shares
from engine.layers.vision.tower import TowerPass, TowerStep, bucket_of
from engine.models.vision.base import Tower, TowerParams
from engine.models.vision.qwen2vl import AREA
from engine.weights.bind import Name
from engine.weights.params import Meta, Range

LEAST, MOST = 64, 256
"""Rows of a picture, where the file does not say how many pixels."""
MERGED_EPS = 1e-5


@dataclass(frozen=True, kw_only=True)
class Params(TowerParams):
    """Hyperparameters by their GGUF keys; `least` and `most` are a picture's pixels, 0: unsaid."""

    merge: Annotated[int, Meta("vision.projector.scale_factor", Range(1, 1 << 6))] = 2
    least: Annotated[int, Meta("vision.image_min_pixels", AREA)] = 0
    most: Annotated[int, Meta("vision.image_max_pixels", AREA)] = 0

    @property
    def cell(self) -> int:
        """Pixels along a side that become one row."""
        return self.patch * self.merge

    @property
    def area(self) -> tuple[int, int]:
        """The least and the most pixels of a picture."""
        return self.least or LEAST * self.cell**2, self.most or MOST * self.cell**2

    def problem(self) -> str:
        """A contradiction among the parameters, or ""."""
        least, most = self.area
        if most < max(least, self.cell**2) and not super().problem():
            return f"vision.image_max_pixels {most} is less than a picture must have"
        return super().problem()


@dataclass(frozen=True)
class Weights:
    """The tower's and the projector's tensors; positions [E, N] of a square."""

    patches: Annotated[Patches, Name("v.patch_embd")]
    positions: Annotated[Tensor, Name("v.position_embd.weight")]
    blocks: Annotated[list[Block], Name("v.blk")]
    post_norm: Annotated[LayerNorm, Name("v.post_ln")]
    merged_norm: Annotated[LayerNorm | None, Name("mm.input_norm")]
    up: Annotated[Linear, Name("mm.1")]
    down: Annotated[Linear, Name("mm.2")]


class Model(Tower[Params, Weights]):
    """Plans have buckets of patches."""

    projectors = ("lfm2",)
    hosts = ("lfm2",)
    tokens = ("<|image_start|>", "<|image_end|>")
    markers = ("<image>",)

    def plan(self, size: Size, limits: Limits) -> ImagePlan:
        (least, most), patch, cell = self.params.area, self.params.patch, self.params.cell
        return layouts.lfm2(size, limits, patch=patch, cell=cell, least=least, most=most)

    def inputs(self, pixels: Floats, plan: ImagePlan, view: int) -> TowerStep:
        params = self.params
        rows, cols = pixels.shape[0] // params.patch, pixels.shape[1] // params.patch
        order = neighbours(cols, rows, params.merge)
        shares = square_shares(self.weights.positions, shrunk, (rows, cols), order)
        inputs = {"patches": cut(pixels, params.patch)[order], "shares": shares}
        return TowerStep(len(order), len(order) // params.merge**2, inputs)

    def forward(self, p: TowerPass) -> Tensor:
        params, w = self.params, self.weights
        spec = BlockSpec(params.n_head, params.head_dim, params.eps, ops.gelu)
        x = ops.add(w.patches(p, params.patch), mixed(w.positions, p)).named("v/pos_embed")
        for i, block in enumerate(w.blocks):
            x = block(x, i, p, spec)
        x = merged(w.post_norm(x, params.eps, "v/post_ln"), params.merge**2)
        if w.merged_norm is not None:
            x = w.merged_norm(x, MERGED_EPS, "v/mm_norm")
        return w.down(ops.gelu_erf(w.up(x, "v/mm_up")).named("v/mm_act"), "v/mm_down")

    def bucket(self, n: int) -> int:
        return bucket_of(n, self.params.merge**2)

    def worst(self, limits: Limits) -> int:
        params = self.params
        least, most = (area // params.cell**2 for area in params.area)
        # Of the longest pictures a side cannot shrink below a cell; enlarging rounds up.
        enlarged = least + isqrt((MOST_ASPECT + 3) * least) + 2
        rows = max(most, isqrt(MOST_ASPECT * most), enlarged)
        return self.bucket(rows * params.merge**2)
