"""Llama 4: tiles with an overview, a class row at the end, rotations by row and column.

Meta 2025. Four patches go side by side into a row, through a feed-forward of its own.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.images import layouts
from engine.images.patches import Floats, cut, neighbours
from engine.images.plan import ImagePlan, Limits, Size
from engine.layers.linear import Linear
from engine.layers.rope import grid_table
from engine.layers.vision.blocks import Block, BlockSpec, LayerNorm, Patches, merged, placed
from engine.layers.vision.tower import TowerPass, TowerStep
from engine.models.vision.base import Tower, TowerParams
from engine.weights.bind import Name
from engine.weights.params import EPSILON, Meta, Range

TILES = 16
"""Of a picture at most, the overview not counted."""


@dataclass(frozen=True, kw_only=True)
class Params(TowerParams):
    """Hyperparameters; an mmproj has `factor`, a single file `ratio`, which is 1 / factor."""

    eps: Annotated[
        float,
        Meta("vision.attention.layer_norm_epsilon", EPSILON, alt=("vision.layer_norm_epsilon",)),
    ] = 1e-5
    rope_base: Annotated[float, Meta("vision.rope.freq_base", Range(2, 1e12))] = 1e4
    factor: Annotated[int, Meta("vision.projector.scale_factor", Range(1, 64, or_zero=True))] = 0
    ratio: Annotated[float, Meta("vision.pixel_shuffle_ratio", Range(1 / 64, 1))] = 0.5

    @property
    def merge(self) -> int:
        """Patches along a side that become one row."""
        return self.factor or round(1 / self.ratio)

    def problem(self) -> str:
        """A contradiction among the parameters, or ""."""
        if problem := super().problem():
            return problem
        if self.head_dim % 4:
            return f"heads of {self.head_dim} cannot turn by rows and columns: no multiple of 4"
        if self.side % self.merge:
            grid = f"vision.image_size and patch_size make {self.side} patches to a side"
            return f"{grid}, which {self.merge} does not divide"
        return ""


@dataclass(frozen=True)
class Weights:
    """The tower's and the projector's tensors."""

    patches: Annotated[Patches, Name("v.patch_embd", alt="v.patch_embedding")]
    cls: Annotated[Tensor, Name("v.class_embd", alt="v.class_embedding")]
    positions: Annotated[Tensor, Name("v.position_embd.weight", alt="v.positional_embedding_vlm")]
    pre_norm: Annotated[LayerNorm, Name("v.pre_ln", alt="v.layernorm_pre")]
    blocks: Annotated[list[Block], Name("v.blk")]
    post_norm: Annotated[LayerNorm, Name("v.post_ln", alt="v.layernorm_post")]
    up: Annotated[Linear, Name("mm.model.mlp.1", alt="v.vision_adapter.mlp.fc1")]
    down: Annotated[Linear, Name("mm.model.mlp.2", alt="v.vision_adapter.mlp.fc2")]
    projection: Annotated[Linear, Name("mm.model.fc", alt="mm.linear_1")]


class Model(Tower[Params, Weights]):
    """Each tile is a pass of its own, all of one size."""

    projectors = ("llama4",)
    architectures = ("llama4",)
    hosts = ("llama4",)
    tokens = (
        *("<|image_start|>", "<|image|>", "<|image_end|>"),
        *("<|tile_x_separator|>", "<|tile_y_separator|>"),
    )
    markers = ("<|image|>",)

    def plan(self, size: Size, limits: Limits) -> ImagePlan:
        params = self.params
        cell = params.patch * params.merge
        return layouts.llama4(size, limits, edge=params.image_size, most=TILES, cell=cell)

    def inputs(self, pixels: Floats, plan: ImagePlan, view: int) -> TowerStep:
        params, side = self.params, self.params.side
        order = neighbours(side, side, params.merge)
        y, x = np.divmod(order, side)
        # The class row, last, stands at (0, 0) and does not turn.
        rope = grid_table(
            np.append(x + 1, 0), np.append(y + 1, 0), params.head_dim, params.rope_base
        )
        positions = np.append(order, side * side).astype(np.int32)
        patches = cut(pixels, params.patch)[order]
        inputs = {"patches": patches, "positions": positions, "rope": rope}
        return TowerStep(side * side, side * side // params.merge**2, inputs)

    def forward(self, p: TowerPass) -> Tensor:
        params, w = self.params, self.weights
        spec = BlockSpec(params.n_head, params.head_dim, params.eps, ops.gelu_erf, "adjacent")
        x = w.patches(p, params.patch)
        x = ops.concat(x, ops.cast(w.cls.reshape(params.n_embd, 1), x.fmt), 1)
        x = w.pre_norm(ops.add(x, placed(w.positions, p, classes=1)), params.eps, "v/pre_ln")
        for i, block in enumerate(w.blocks):
            x = block(x, i, p, spec)
        x = w.post_norm(x, params.eps, "v/post_ln")
        x = merged(ops.slice_(x, 1, 0, p.n), params.merge**2)
        x = ops.gelu_erf(w.up(x, "v/adapter_up"))
        x = ops.gelu_erf(w.down(x, "v/adapter_down")).named("v/adapter_mlp")
        return w.projection(x)

    def worst(self, limits: Limits) -> int:
        return self.params.side**2
