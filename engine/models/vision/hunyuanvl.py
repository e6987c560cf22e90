"""HunyuanOCR: any size, positions stretched to the picture, learned rows around lines.

Tencent 2025. 2 x 2 patches are joined; a learned row ends each line, one begins and one ends the
picture. Places are numbers of tokens, and inside pictures column, row and the picture's number.
(llama.cpp's projector bends by the approximation of GELU, the published model by GELU itself.)
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

import numpy as np

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.images import layouts
from engine.images.patches import Floats
from engine.images.plan import ImagePlan, Limits, Size
from engine.layers.linear import Linear, RMSNorm
from engine.layers.vision.blocks import Block, BlockSpec, Patches, joined
from engine.layers.vision.stretch import half_pixels, mixed_corners
from engine.layers.vision.tower import TowerPass, TowerStep
from engine.models.vision import qwen2vl
from engine.models.vision.base import Places
from engine.models.vision.qwen2vl import AREA, QwenTower
from engine.weights.bind import Name
from engine.weights.params import Meta

EXCESS = 0.1
"""By which the published model stretches positions further than to the picture's patches."""


@dataclass(frozen=True, kw_only=True)
class Params(qwen2vl.Params):
    """Hyperparameters by their GGUF keys."""

    least: Annotated[int, Meta("vision.image_min_pixels", AREA)] = 512**2
    most: Annotated[int, Meta("vision.image_max_pixels", AREA)] = 2048**2


@dataclass(frozen=True)
class Weights:
    """The tower's and the projector's tensors; positions [E, N] of a square, `merger` and `wider`
    convolutions of M x M patches and of one row, `newline` as wide as what these give.
    """

    patches: Annotated[Patches, Name("v.patch_embd")]
    positions: Annotated[Tensor, Name("v.position_embd.weight")]
    blocks: Annotated[list[Block], Name("v.blk")]
    norm: Annotated[RMSNorm, Name("mm.pre_norm")]
    merger: Annotated[Tensor, Name("mm.0.weight")]
    merger_bias: Annotated[Tensor, Name("mm.0.bias")]
    wider: Annotated[Tensor, Name("mm.2.weight")]
    wider_bias: Annotated[Tensor, Name("mm.2.bias")]
    newline: Annotated[Tensor, Name("v.image_newline")]
    down: Annotated[Linear, Name("mm.model.fc")]
    begin: Annotated[Tensor, Name("mm.image_begin")]
    end: Annotated[Tensor, Name("mm.image_end")]
    row_norm: Annotated[RMSNorm, Name("mm.post_norm")]

    @property
    def up(self) -> Linear:
        """The convolution of one row, as the matrix that it is."""
        size, wider = self.wider.shape[2:]
        return Linear(self.wider.reshape(size, wider), self.wider_bias, None)


class Model(QwenTower[Params, Weights]):
    """Three learned rows stand before those of the patches; the plan puts them in their places."""

    projectors = ("hunyuanvl",)
    hosts = ("hunyuan_vl",)
    tokens = ("<｜hy_place▁holder▁no▁100｜>", "<｜hy_place▁holder▁no▁101｜>")  # noqa: RUF001
    markers = (
        "<｜hy_place▁holder▁no▁100｜><｜hy_place▁holder▁no▁102｜><｜hy_place▁holder▁no▁101｜>",  # noqa: RUF001
    )
    ignored = ("v.view_seperator",)
    filter = "lanczos"

    @property
    def spec(self) -> BlockSpec:
        params = self.params
        return BlockSpec(params.n_head, params.head_dim, params.eps, ops.gelu_erf)

    def plan(self, size: Size, limits: Limits) -> ImagePlan:
        params, (before, after) = self.params, self.tokens
        return layouts.hunyuan(
            *(size, limits),
            cell=params.cell,
            least=max(params.least, params.cell**2),
            most=params.most,
            before=before,
            after=after,
        )

    def inputs(self, pixels: Floats, plan: ImagePlan, view: int) -> TowerStep:
        step = super().inputs(pixels, plan, view)
        along = partial(half_pixels, excess=EXCESS)
        step = self.with_corners(step, self.weights.positions, along, pixels)
        return replace(step, rows=step.rows + layouts.HUNYUAN_LEARNED)

    def embedded(self, p: TowerPass) -> Tensor:
        w = self.weights
        x = w.patches(p, self.params.patch)
        return ops.add(x, mixed_corners(w.positions, p)).named("v/pos_embed")

    def forward(self, p: TowerPass) -> Tensor:
        params, w = self.params, self.weights
        x = self.embedded(p)
        for i, block in enumerate(w.blocks):
            x = block(x, i, p, self.spec)
        x = joined(w.norm(x, params.eps, "v/mm_norm"), w.merger, w.merger_bias, params.merge)
        x = before(w.newline, w.up(ops.gelu_erf(x).named("v/mm_act"), "v/mm_wider"))
        x = before(w.begin, before(w.end, w.down(x, "v/mm_down")))
        return w.row_norm(x, params.eps, "v/mm_post_norm")

    def places(self, plan: ImagePlan, start: int, number: int) -> Places:
        grid = plan.views[0].grid
        tokens = np.arange(start, start + plan.rows, dtype=np.int32)
        row, col = np.divmod(np.arange(grid.h * (grid.w + 1), dtype=np.int32), np.int32(grid.w + 1))
        places = np.tile(tokens, (4, 1))
        places[1:, 1:-1] = col, row, np.full_like(row, number)
        return places


def before(first: Tensor, x: Tensor) -> Tensor:
    """The row `first` [E] before those of x [E, n]."""
    return ops.concat(ops.cast(first.reshape(x.shape[0], 1), x.fmt), x, 1)
