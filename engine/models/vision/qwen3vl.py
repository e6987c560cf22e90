"""Qwen3-VL, Qwen3.5: learned positions stretched to the picture, more rows for the text's layers.

Qwen Team 2025. Behind some blocks a merger of its own makes rows that are added after the text
model's first layers (DeepStack, Meng et al. 2024); Qwen3.5 (2026) has the tower without these.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from engine.errors import ShapeError
from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.images.patches import Floats
from engine.images.plan import ImagePlan
from engine.images.resize import Colour
from engine.layers.linear import Linear
from engine.layers.vision.blocks import Block, BlockSpec, LayerNorm, merged
from engine.layers.vision.stretch import edge_to_edge, mixed_corners
from engine.layers.vision.tower import TowerPass, TowerStep
from engine.models.vision import qwen2vl
from engine.models.vision.base import COLOUR, SPREAD
from engine.models.vision.qwen2vl import AREA, Frames, QwenTower, bent
from engine.weights.bind import Name
from engine.weights.params import COUNT, Meta, Range


@dataclass(frozen=True, kw_only=True)
class Params(qwen2vl.Params):
    """Hyperparameters; a single file says behind which blocks further rows are `taken`."""

    least: Annotated[int, Meta("vision.image_min_pixels", AREA, alt=("vision.shortest_edge",))] = (
        65536
    )
    most: Annotated[int, Meta("vision.image_max_pixels", AREA, alt=("vision.longest_edge",))] = (
        16777216
    )
    taken: Annotated[
        tuple[int, ...], Meta("vision.deepstack_visual_indexes", Range(0, COUNT.high))
    ] = ()
    mean: Annotated[Colour, Meta("vision.image_mean", COLOUR)] = (0.5, 0.5, 0.5)
    std: Annotated[Colour, Meta("vision.image_std", SPREAD)] = (0.5, 0.5, 0.5)


@dataclass(frozen=True)
class Merger:
    """Further rows of a block: the norm comes after the merge."""

    norm: Annotated[LayerNorm, Name("norm")]
    up: Annotated[Linear, Name("fc1", alt="linear_fc1")]
    down: Annotated[Linear, Name("fc2", alt="linear_fc2")]


@dataclass(frozen=True)
class BothFrames:
    """A single file's kernels of two frames as one: [P, P, 2, 3 * E]."""

    kernel: Annotated[Tensor, Name("v.patch_embed.weight")]

    def __call__(self, p: TowerPass, size: int) -> Tensor:
        """The input `patches_twice` [3*2*P*P, n] -> [E, n]."""
        w, h, frames, rows = self.kernel.shape
        if (w, h, frames) != (size, size, 2) or rows % 3:
            problem = f"patches are {size} x {size} in 2 frames of 3 colours"
            raise ShapeError(self.kernel.name, problem, self.kernel.shape)
        matrix = self.kernel.reshape(3 * frames * size * size, rows // 3)
        patches = p.floats("patches_twice", matrix.shape[0], p.n)
        return ops.matmul(matrix, patches).named("v/inp")


@dataclass(frozen=True)
class Weights:
    """The tower's and the projector's tensors; an mmproj counts further rows by their block."""

    frames: Frames | BothFrames
    bias: Annotated[Tensor, Name("v.patch_embd.bias", alt="v.patch_embed.bias")]
    positions: Annotated[Tensor, Name("v.position_embd.weight", alt="v.pos_embed.weight")]
    blocks: Annotated[list[Block], Name("v.blk")]
    norm: Annotated[LayerNorm, Name("v.post_ln", alt="v.merger.norm")]
    up: Annotated[Linear, Name("mm.0", alt="v.merger.linear_fc1")]
    down: Annotated[Linear, Name("mm.2", alt="v.merger.linear_fc2")]
    deepstack: Annotated[dict[int, Merger], Name("v.deepstack", alt="v.deepstack_merger")]


class Model(QwenTower[Params, Weights]):
    """The tower of Qwen3-VL (2025)."""

    projectors = ("qwen3vl_merger",)
    architectures = ("qwen3vl", "qwen3vlmoe")
    hosts = ("qwen3vl", "qwen3vlmoe", "qwen35", "qwen35moe")

    @property
    def spec(self) -> BlockSpec:
        params = self.params
        return BlockSpec(params.n_head, params.head_dim, params.eps, ops.gelu, "neox")

    @property
    def deepstack(self) -> int:
        return len(self.weights.deepstack)

    @property
    def mergers(self) -> Mapping[int, Merger]:
        """By the block behind which they stand."""
        mergers = self.weights.deepstack
        if not self.is_single:
            return mergers
        return dict(zip(sorted(self.params.taken), mergers.values(), strict=False))

    def inputs(self, pixels: Floats, plan: ImagePlan, view: int) -> TowerStep:
        step = super().inputs(pixels, plan, view)
        step = self.with_corners(step, self.weights.positions, edge_to_edge, pixels)
        patches = step.inputs["patches"].reshape(step.n, 3, 1, -1)
        twice = np.repeat(patches, 2, axis=2).reshape(step.n, -1)
        return replace(step, inputs={**step.inputs, "patches_twice": twice})

    def embedded(self, p: TowerPass) -> Tensor:
        x = ops.add(self.weights.frames(p, self.params.patch), self.weights.bias)
        return ops.add(x, mixed_corners(self.weights.positions, p)).named("v/pos_embed")

    def forward(self, p: TowerPass) -> Tensor:
        params, w, mergers = self.params, self.weights, self.mergers
        cells, further = params.merge**2, []
        x = self.embedded(p)
        for i, block in enumerate(w.blocks):
            x = block(x, i, p, self.spec)
            if i in mergers:
                merger = mergers[i]
                rows = merger.norm(merged(x, cells), params.eps, "v/deepstack_norm", i)
                further.append(bent(merger.up, merger.down, rows))
        x = merged(w.norm(x, params.eps, "v/post_ln"), cells)
        return ops.stack(0, bent(w.up, w.down, x), *further)
