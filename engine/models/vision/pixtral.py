"""Pixtral, Mistral Small 3.1 and later: any size (Agrawal et al. 2024); the latter merge patches.

Pictures keep their shape; each patch turns by its row and column. The projector of the latter
normalises rows, and puts m x m neighbours side by side, channel by channel.
"""

from dataclasses import dataclass
from math import isqrt
from typing import Annotated, ClassVar

import numpy as np

from engine.errors import ShapeError
from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.images import layouts
from engine.images.patches import Floats, cut, neighbours
from engine.images.plan import ImagePlan, Limits, Size
from engine.images.resize import Colour
from engine.layers.linear import Linear, RMSNorm
from engine.layers.rope import grid_table
from engine.layers.vision.blocks import BlockSpec, GatedBlock, Patches, by_channel
from engine.layers.vision.tower import TowerPass, TowerStep, bucket_of
from engine.models.vision.base import (
    CLIP_MEAN,
    CLIP_STD,
    COLOUR,
    SIDE,
    SPREAD,
    Tower,
    TowerParams,
)
from engine.weights.bind import Name
from engine.weights.params import EPSILON, Meta, Range

MOST_PATCHES = 1024
"""Along a side."""


@dataclass(frozen=True, kw_only=True)
class Params(TowerParams):
    """Hyperparameters by their GGUF keys; `image_size` is the longest side, unless given apart."""

    eps: Annotated[float, Meta("vision.attention.layer_norm_epsilon", EPSILON)] = 1e-5
    rope_base: Annotated[float, Meta("vision.rope.freq_base", Range(2, 1e12))] = 1e4
    longest_edge: Annotated[
        int,
        Meta(
            "vision.longest_edge",
            Range(SIDE.low, SIDE.high, or_zero=True),
            alt=("vision.preproc_image_size",),
        ),
    ] = 0
    mean: Annotated[Colour, Meta("vision.image_mean", COLOUR)] = CLIP_MEAN
    std: Annotated[Colour, Meta("vision.image_std", SPREAD)] = CLIP_STD

    @property
    def longest(self) -> int:
        """The longest side of a picture, in pixels."""
        return self.longest_edge or self.image_size

    def problem(self) -> str:
        """A contradiction among the parameters, or ""."""
        if self.longest > MOST_PATCHES * self.patch:
            most = f"{MOST_PATCHES} times vision.patch_size {self.patch}"
            return f"a picture's longest side {self.longest} is above {most}"
        if self.head_dim % 4 and not super().problem():
            return f"heads of {self.head_dim} cannot turn by rows and columns: no multiple of 4"
        return super().problem()


@dataclass(frozen=True)
class Merger:
    """The norm before and the matrix [m*m*E, E] of merging, of files that merge."""

    norm: Annotated[RMSNorm, Name("mm.input_norm", alt="mm.norm")]
    matrix: Annotated[Linear, Name("mm.patch_merger.merging_layer", alt="mm.patch_merger")]


@dataclass(frozen=True)
class Weights:
    """The tower's and the projector's tensors."""

    patches: Annotated[Patches, Name("v.patch_embd", alt="v.patch_conv")]
    pre_norm: Annotated[RMSNorm, Name("v.pre_ln", alt="v.encoder_norm")]
    blocks: Annotated[list[GatedBlock], Name("v.blk")]
    merger: Merger | None
    up: Annotated[Linear, Name("mm.1", alt="mm.linear_1")]
    down: Annotated[Linear, Name("mm.2", alt="mm.linear_2")]


class Model(Tower[Params, Weights]):
    """Plans have buckets of patches."""

    projectors = ("pixtral",)
    architectures: ClassVar[tuple[str, ...]] = ("mistral3",)
    hosts: ClassVar[tuple[str, ...]] = ("llama", "mistral3")
    tokens: ClassVar[tuple[str, ...]] = ("[IMG_BREAK]", "[IMG_END]")
    markers = ("[IMG]",)
    # The row of [IMG_BREAK] once more; it is a token like any other.
    ignored = ("v.token_embd.img_break",)
    filter = "bicubic"

    @property
    def merge(self) -> int:
        """Patches along a side that become one row."""
        merger = self.weights.merger
        if merger is None:
            return 1
        return max(1, isqrt(merger.matrix.weight.shape[0] // self.params.n_embd))

    def plan(self, size: Size, limits: Limits) -> ImagePlan:
        cell = self.params.patch * self.merge
        return layouts.pixtral(size, limits, longest=self.params.longest, cell=cell)

    def inputs(self, pixels: Floats, plan: ImagePlan, view: int) -> TowerStep:
        params, merge = self.params, self.merge
        rows, cols = pixels.shape[0] // params.patch, pixels.shape[1] // params.patch
        order = neighbours(cols, rows, merge)
        y, x = np.divmod(order, cols)
        rope = grid_table(y, x, params.head_dim, params.rope_base, staggered=True)
        inputs = {"patches": cut(pixels, params.patch)[order], "rope": rope}
        return TowerStep(len(order), len(order) // merge**2, inputs)

    def forward(self, p: TowerPass) -> Tensor:
        params, w = self.params, self.weights
        # llama.cpp's converter moves the channels of a pair next to each other.
        pairs = "neox" if self.is_single else "adjacent"
        spec = BlockSpec(params.n_head, params.head_dim, params.eps, ops.silu, pairs)
        x = w.pre_norm(w.patches(p, params.patch), params.eps, "v/pre_ln")
        for i, block in enumerate(w.blocks):
            x = block(x, i, p, spec)
        if w.merger is not None:
            x = self._merged(x, w.merger)
        return w.down(ops.gelu_erf(w.up(x, "v/mm_up")).named("v/mm_act"))

    def _merged(self, x: Tensor, merger: Merger) -> Tensor:
        """[E, n] -> [E, n / m^2]."""
        size, cells = self.params.n_embd, self.merge**2
        if merger.matrix.weight.shape[0] != size * cells:
            problem = "is not a matrix of square patches"
            raise ShapeError("mm.patch_merger", problem, merger.matrix.weight.shape)
        x = merger.norm(x, self.host.rms_eps, "v/mm_norm")
        # Channel by channel: c * m * m + dy * m + dx.
        runs = by_channel(x, cells).reshape(size * cells, x.shape[1] // cells)
        return merger.matrix(runs, "v/mm_merged")

    def bucket(self, n: int) -> int:
        return bucket_of(n, self.merge**2)

    def worst(self, limits: Limits) -> int:
        side = -(-self.params.longest // (self.params.patch * self.merge)) * self.merge
        return self.bucket(side * side)
