"""Kimi-VL: MoonViT, positions stretched to the picture, pairs that turn by both axes.

Kimi Team 2025. A picture keeps its size up to 4096 patches and is padded; pairs of a head turn by
column and row in alternation. (llama.cpp turns halves of a head, which the published model does
not.)
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.images import layouts
from engine.images.patches import Floats, cut, neighbours
from engine.images.plan import ImagePlan, Limits, Size
from engine.layers.linear import Linear
from engine.layers.rope import grid_table
from engine.layers.vision.blocks import Block, BlockSpec, LayerNorm, Patches, merged
from engine.layers.vision.stretch import bicubic, mixed, square_shares
from engine.layers.vision.tower import TowerPass, TowerStep, bucket_of
from engine.models.vision.base import Tower, TowerParams
from engine.models.vision.qwen2vl import AREA
from engine.weights.bind import Name
from engine.weights.params import EPSILON, Meta, Range

PATCHES, LONGEST = 4096, 512
"""Of a picture, where the file does not say; along its longest side."""
MERGED_EPS = 1e-5


@dataclass(frozen=True, kw_only=True)
class Params(TowerParams):
    """Hyperparameters by their GGUF keys; `most` are a picture's pixels, 0: unsaid."""

    eps: Annotated[float, Meta("vision.attention.layer_norm_epsilon", EPSILON)] = 1e-5
    merge: Annotated[int, Meta("vision.projector.scale_factor", Range(1, 1 << 6))] = 2
    most: Annotated[int, Meta("vision.image_max_pixels", AREA)] = 0

    @property
    def patches(self) -> int:
        """The most patches of a picture."""
        return self.most // self.patch**2 or PATCHES

    def problem(self) -> str:
        """A contradiction among the parameters, or ""."""
        if problem := super().problem():
            return problem
        if self.head_dim % 4:
            return f"heads of {self.head_dim} cannot turn by rows and columns: no multiple of 4"
        if self.most and self.most < (self.patch * self.merge) ** 2:
            return f"vision.image_max_pixels {self.most} is less than a picture must have"
        return ""


@dataclass(frozen=True)
class Weights:
    """The tower's and the projector's tensors; positions [E, N] of a square."""

    patches: Annotated[Patches, Name("v.patch_embd")]
    positions: Annotated[Tensor, Name("v.position_embd.weight")]
    blocks: Annotated[list[Block], Name("v.blk")]
    post_norm: Annotated[LayerNorm, Name("v.post_ln")]
    merged_norm: Annotated[LayerNorm, Name("mm.input_norm")]
    up: Annotated[Linear, Name("mm.1")]
    down: Annotated[Linear, Name("mm.2")]


class Model(Tower[Params, Weights]):
    """Plans have buckets of patches."""

    projectors: ClassVar[tuple[str, ...]] = ("kimivl",)
    hosts = ("deepseek2",)
    tokens: ClassVar[tuple[str, ...]] = ("<|media_start|>", "<|media_content|>", "<|media_end|>")
    markers: ClassVar[tuple[str, ...]] = (
        "<|media_start|>image<|media_content|><|media_pad|><|media_end|>",
    )
    filter = "bicubic"
    by_turns: ClassVar[bool] = True
    """Pairs turn by column and row in alternation, not by halves of a head."""

    @property
    def positions(self) -> Tensor:
        """The table [E, N] of a square."""
        return self.weights.positions

    def plan(self, size: Size, limits: Limits) -> ImagePlan:
        params, (start, content, end) = self.params, self.tokens
        return layouts.kimi(
            *(size, limits),
            patch=params.patch,
            merge=params.merge,
            most=params.patches,
            longest=LONGEST,
            before=f"{start}image{content}",
            after=end,
        )

    def inputs(self, pixels: Floats, plan: ImagePlan, view: int) -> TowerStep:
        params = self.params
        rows, cols = pixels.shape[0] // params.patch, pixels.shape[1] // params.patch
        order = neighbours(cols, rows, params.merge)
        y, x = np.divmod(order, cols)
        inputs = {
            "patches": cut(pixels, params.patch)[order],
            "shares": square_shares(self.positions, bicubic, (rows, cols), order),
            "rope": grid_table(x, y, params.head_dim, by_turns=self.by_turns),
        }
        return TowerStep(len(order), len(order) // params.merge**2, inputs)

    def forward(self, p: TowerPass) -> Tensor:
        params, w = self.params, self.weights
        spec = BlockSpec(params.n_head, params.head_dim, params.eps, ops.gelu, "adjacent")
        x = ops.add(w.patches(p, params.patch), mixed(self.positions, p)).named("v/pos_embed")
        for i, block in enumerate(w.blocks):
            x = block(x, i, p, spec)
        x = w.merged_norm(w.post_norm(x, params.eps, "v/post_ln"), MERGED_EPS, "v/mm_norm")
        x = merged(x, params.merge**2)
        return w.down(ops.gelu_erf(w.up(x, "v/mm_up")).named("v/mm_act"), "v/mm_down")

    def bucket(self, n: int) -> int:
        return bucket_of(n, self.params.merge**2)

    def worst(self, limits: Limits) -> int:
        merge, most = self.params.merge, self.params.patches
        longest = -(-LONGEST // merge)
        rows = longest  # of one line of cells, which may be less than a patch high
        for short in range(2, longest + 1):
            # More than `least` patches; those that are not whole do not count, on either side.
            least = (short - 1) * merge
            long = min(longest, int(most * (1 + 1 / least) ** 2 / least / merge) + 1)
            if long < short:
                break
            rows = max(rows, short * long)
        return self.bucket(rows * merge**2)
