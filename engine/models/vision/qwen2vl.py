"""Qwen2-VL: pictures of any size, patches merged two by two.

Wang et al. 2024. Each patch turns by its row and column. The file has a kernel for each of two
frames; a picture is the same frame twice. Its rows stand at places of three axes in the text.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isqrt
from typing import Annotated, ClassVar, Protocol, TypeVar

import numpy as np

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.images import layouts
from engine.images.patches import Floats, cut, neighbours
from engine.images.plan import ImagePlan, Limits, Size
from engine.images.resize import Colour, Filter
from engine.images.tiles import MOST_ASPECT, as_given
from engine.layers.linear import Linear, RMSNorm
from engine.layers.rope import grid_table
from engine.layers.vision.blocks import Block, BlockSpec, LayerNorm, RMSBlock, matrix, merged
from engine.layers.vision.stretch import Along, corners
from engine.layers.vision.tower import EVERYTHING, TowerPass, TowerStep, bucket_of
from engine.models.vision.base import (
    CLIP_MEAN,
    CLIP_STD,
    COLOUR,
    SIDE,
    SPREAD,
    Places,
    Tower,
    TowerParams,
)
from engine.weights.bind import Name
from engine.weights.params import Meta, Range

AREA = Range(1, 1 << 31, or_zero=True)
LEAST, MOST = 3136, 12845056
"""Pixels of a picture, where the file does not say."""


@dataclass(frozen=True, kw_only=True)
class Params(TowerParams):
    """Hyperparameters by their GGUF keys; `least` and `most` are a picture's pixels."""

    image_size: Annotated[int, Meta("vision.image_size", SIDE)] = 560
    merge: Annotated[int, Meta("vision.spatial_merge_size", Range(1, 1 << 6))] = 2
    rope_base: Annotated[float, Meta("vision.rope.freq_base", Range(2, 1e12))] = 1e4
    least: Annotated[int, Meta("vision.image_min_pixels", AREA, alt=("vision.shortest_edge",))] = (
        LEAST
    )
    most: Annotated[
        int,
        Meta("vision.image_max_pixels", AREA, alt=("vision.longest_edge", "vision.max_pixels")),
    ] = MOST
    mean: Annotated[Colour, Meta("vision.image_mean", COLOUR)] = CLIP_MEAN
    std: Annotated[Colour, Meta("vision.image_std", SPREAD)] = CLIP_STD

    @property
    def cell(self) -> int:
        """Pixels along a side that become one row."""
        return self.patch * self.merge

    def problem(self) -> str:
        """A contradiction among the parameters, or ""."""
        if problem := super().problem():
            return problem
        if self.head_dim % 4:
            return f"heads of {self.head_dim} cannot turn by rows and columns: no multiple of 4"
        if self.most < max(self.least, self.cell**2):
            return f"vision.image_max_pixels {self.most} is less than a picture must have"
        return ""


@dataclass(frozen=True)
class Frames:
    """Kernels [P, P, 3, E] of two frames; a picture is the same one twice."""

    first: Annotated[Tensor, Name("v.patch_embd.weight", alt="v.patch_embd_0.weight")]
    second: Annotated[Tensor, Name("v.patch_embd.weight.1", alt="v.patch_embd_1.weight")]

    def __call__(self, p: TowerPass, size: int) -> Tensor:
        """The input `patches` [3*P*P, n] -> [E, n]."""
        kernels = matrix(self.first, size), matrix(self.second, size)
        patches = p.floats("patches", kernels[0].shape[0], p.n)
        return ops.add(*(ops.matmul(kernel, patches) for kernel in kernels)).named("v/inp")


@dataclass(frozen=True)
class Weights:
    """The tower's and the projector's tensors."""

    frames: Frames
    blocks: Annotated[list[Block], Name("v.blk")]
    norm: Annotated[LayerNorm, Name("v.post_ln")]
    up: Annotated[Linear, Name("mm.0")]
    down: Annotated[Linear, Name("mm.2")]


class QwenWeights(Protocol):
    """Tensors that the towers of this line have in common."""

    @property
    def blocks(self) -> Sequence[RMSBlock]: ...
    @property
    def norm(self) -> RMSNorm: ...
    @property
    def up(self) -> Linear: ...
    @property
    def down(self) -> Linear: ...


P = TypeVar("P", bound=Params)
W = TypeVar("W", bound=QwenWeights)


def bent(up: Linear, down: Linear, x: Tensor) -> Tensor:
    """down(gelu(up(x))): [E, rows] of merged patches."""
    return down(ops.gelu_erf(up(x, "v/mm_up")).named("v/mm_act"))


class QwenTower(Tower[P, W]):
    """Plans have buckets of patches; what stands around the blocks."""

    tokens = ("<|vision_start|>", "<|vision_end|>")
    markers = ("<|vision_start|><|image_pad|><|vision_end|>",)
    filter: ClassVar[Filter] = "bicubic"
    axes: ClassVar[bool] = True
    enlarge = staticmethod(as_given)
    """Makes the sides of a small picture as long as a cell."""

    @property
    @abstractmethod
    def spec(self) -> BlockSpec:
        """The numbers of the blocks."""

    def sight(self, i: int) -> str:
        """Who sees whom in block i."""
        return EVERYTHING

    def plan(self, size: Size, limits: Limits) -> ImagePlan:
        params, (before, after) = self.params, self.tokens
        return layouts.qwen(
            *(size, limits),
            cell=params.cell,
            least=max(params.least, params.cell**2),
            most=params.most,
            enlarge=self.enlarge,
            before=before,
            after=after,
        )

    def inputs(self, pixels: Floats, plan: ImagePlan, view: int) -> TowerStep:
        params = self.params
        rows, cols = pixels.shape[0] // params.patch, pixels.shape[1] // params.patch
        order = neighbours(cols, rows, params.merge)
        y, x = np.divmod(order, cols)
        rope = grid_table(y, x, params.head_dim, params.rope_base)
        inputs = {"patches": cut(pixels, params.patch)[order], "rope": rope}
        return TowerStep(len(order), len(order) // params.merge**2, inputs)

    def with_corners(
        self, step: TowerStep, table: Tensor, along: Along, pixels: Floats
    ) -> TowerStep:
        """The step with each patch's place on the square `table` of positions [E, N]."""
        params = self.params
        rows, cols = pixels.shape[0] // params.patch, pixels.shape[1] // params.patch
        places = corners(table, along, (rows, cols), neighbours(cols, rows, params.merge))
        return replace(step, inputs={**step.inputs, **places})

    @abstractmethod
    def embedded(self, p: TowerPass) -> Tensor:
        """Input of the first block [E, n]."""

    def forward(self, p: TowerPass) -> Tensor:
        params, w = self.params, self.weights
        x = self.embedded(p)
        for i, block in enumerate(w.blocks):
            x = block(x, i, p, self.spec, self.sight(i))
        x = merged(w.norm(x, params.eps, "v/post_ln"), params.merge**2)
        return bent(w.up, w.down, x)

    def bucket(self, n: int) -> int:
        return bucket_of(n, self.params.merge**2)

    def worst(self, limits: Limits) -> int:
        params = self.params
        most = params.most // params.cell**2
        most = min(most, limits.rows or most)
        # Of the longest pictures a side cannot shrink below a cell; enlarging rounds up.
        least = min(-(-params.least // params.cell**2), most)
        enlarged = least + isqrt((MOST_ASPECT + 3) * least) + 2
        rows = max(most, isqrt(MOST_ASPECT * most), enlarged)
        return self.bucket(rows * params.merge**2)

    def places(self, plan: ImagePlan, start: int, number: int) -> Places:
        grid = plan.views[0].grid
        row, col = np.divmod(np.arange(grid.w * grid.h, dtype=np.int32), np.int32(grid.w))
        time = np.full_like(row, start)
        return np.stack([time, start + row, start + col, time])


class Model(QwenTower[Params, Weights]):
    """The tower of Qwen2-VL (2024)."""

    projectors = ("qwen2vl_merger",)
    hosts = ("qwen2vl",)

    def embedded(self, p: TowerPass) -> Tensor:
        return self.weights.frames(p, self.params.patch)

    @property
    def spec(self) -> BlockSpec:
        params = self.params
        return BlockSpec(params.n_head, params.head_dim, params.eps, ops.quick_gelu, "neox")
