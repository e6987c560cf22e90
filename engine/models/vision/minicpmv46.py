"""MiniCPM-V 4.6: SigLIP over a picture and its slices, which merges patches on the way.

OpenBMB 2026. Behind one block the 2 x 2 patches of a window see each other and become one, and the
projector merges 2 x 2 of these.
"""

from dataclasses import dataclass
from math import isqrt
from typing import Annotated

import numpy as np

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.images import layouts
from engine.images.patches import Floats, Ints, cut, neighbours
from engine.images.plan import ImagePlan, Limits, Size
from engine.images.tiles import MOST_ASPECT
from engine.layers.linear import Linear
from engine.layers.vision.blocks import (
    Attention,
    Block,
    BlockSpec,
    LayerNorm,
    Patches,
    merged,
    pooled,
    side_of,
)
from engine.layers.vision.tower import TowerPass, TowerStep, bucket_of, groups
from engine.models.vision.base import SIDE, Tower, TowerParams
from engine.weights.bind import Name
from engine.weights.params import COUNT, Meta, Range

WINDOW = "window"
CELLS = 4
"""Patches that become one, by the window as by the projector."""
PROJECTOR_EPS = 1e-6


@dataclass(frozen=True, kw_only=True)
class Params(TowerParams):
    """Hyperparameters by their GGUF keys; `image_size` is the side of a slice, `merge` how many
    patches along a side become a row (of files that keep more, windows do not merge: not read
    here), `windowed` the block behind which they do.
    """

    image_size: Annotated[int, Meta("vision.image_size", SIDE)] = 448
    merge: Annotated[int, Meta("vision.projector.scale_factor", Range(4, 4))] = 4
    windowed: Annotated[tuple[int, ...], Meta("vision.wa_layer_indexes", Range(0, COUNT.high))] = (
        6,
    )

    def problem(self) -> str:
        """A contradiction among the parameters, or ""."""
        if len(self.windowed) != 1 or self.windowed[0] >= self.n_layer:
            expected = f"expected the number of one of {self.n_layer} blocks"
            return f"vision.wa_layer_indexes are {list(self.windowed[:8])}; {expected}"
        return super().problem()


@dataclass(frozen=True)
class Window:
    """Windows of patches see each other, then become one each."""

    ln1: Annotated[LayerNorm, Name("ln1")]
    attn: Attention
    norm: Annotated[LayerNorm, Name("ds_ln")]
    up: Annotated[Linear, Name("ds_ffn_up")]
    down: Annotated[Linear, Name("ds_ffn_down")]

    def __call__(self, x: Tensor, i: int, p: TowerPass, spec: BlockSpec) -> Tensor:
        """x [E, n] -> [E, n / 4]."""
        h = self.ln1(x, spec.eps, "v/vit_merger_attn_inp_normed")
        x = ops.add(self.attn(h, i, p, spec, WINDOW), x).named("v/vit_merger_attn_residual")
        h = self.norm(merged(x, CELLS), spec.eps, "v/vit_merger_ds_normed")
        h = self.down(ops.gelu(self.up(h, "v/vit_merger_ds_up")), "v/vit_merger_ds_mlp_out")
        return ops.add(h, pooled(x, CELLS)).named("v/vit_merger_ds_out")


@dataclass(frozen=True)
class Weights:
    """The tower's and the projector's tensors; positions [E, N] of a square."""

    patches: Annotated[Patches, Name("v.patch_embd")]
    positions: Annotated[Tensor, Name("v.position_embd.weight")]
    blocks: Annotated[list[Block], Name("v.blk")]
    window: Annotated[Window, Name("v.vit_merger")]
    post_norm: Annotated[LayerNorm, Name("v.post_ln")]
    merged_norm: Annotated[LayerNorm, Name("mm.input_norm")]
    up: Annotated[Linear, Name("mm.up")]
    down: Annotated[Linear, Name("mm.down")]


class Model(Tower[Params, Weights]):
    """Plans have buckets of patches."""

    projectors = ("minicpmv4_6",)
    hosts = ("qwen35",)
    tokens = ("<image>", "</image>", "<slice>", "</slice>")
    markers = ("<|image_pad|>",)
    filter = "bicubic"

    def plan(self, size: Size, limits: Limits) -> ImagePlan:
        params = self.params
        return layouts.minicpmv(
            *(size, limits),
            edge=params.image_size,
            unit=params.patch * params.merge,
            is_counted=self.host.has_token("<image_id>"),
        )

    def inputs(self, pixels: Floats, plan: ImagePlan, view: int) -> TowerStep:
        patch, side = self.params.patch, side_of(self.weights.positions)
        rows, cols = pixels.shape[0] // patch, pixels.shape[1] // patch
        order = nested(cols, rows)
        y, x = np.divmod(order, np.int32(cols))
        inputs = {
            "patches": cut(pixels, patch)[order],
            "positions": (side * y // rows * side + side * x // cols).astype(np.int32),
            **groups(WINDOW, np.arange(len(order), dtype=np.int32) // CELLS),
        }
        return TowerStep(len(order), len(order) // self.params.merge**2, inputs)

    def forward(self, p: TowerPass) -> Tensor:
        params, w = self.params, self.weights
        spec = BlockSpec(params.n_head, params.head_dim, params.eps, ops.gelu)
        positions = ops.rows(w.positions, p.ints("positions", p.n))
        x = ops.add(w.patches(p, params.patch), positions).named("v/pos_embed")
        for i, block in enumerate(w.blocks):
            x = block(x, i, p, spec)
            if (i,) == params.windowed:
                x = w.window(x, i, p, spec)
                p = p.merged(CELLS)
        x = merged(w.post_norm(x, params.eps, "v/post_ln"), CELLS)
        x = w.merged_norm(x, PROJECTOR_EPS, "v/mm_norm")
        return w.down(ops.gelu_erf(w.up(x, "v/mm_up")).named("v/mm_act"), "v/mm_down")

    def bucket(self, n: int) -> int:
        return bucket_of(n, self.params.merge**2)

    def worst(self, limits: Limits) -> int:
        # Sides are rounded, and that of a long view is at least a row; slices of a picture are
        # about as long as it is, or shorter.
        merge = self.params.merge
        side = -(-self.params.image_size // (self.params.patch * merge))
        rows = side**2 + side * (isqrt(2 * MOST_ASPECT) + 2) + 2
        return self.bucket(rows * merge**2)


def nested(cols: int, rows: int) -> Ints:
    """i32 [rows * cols]: a grid's places, the 2 x 2 of each window together, and the windows of
    each 2 x 2 together.
    """
    windows = neighbours(cols, rows, 2).reshape(-1, CELLS)
    return windows[neighbours(cols // 2, rows // 2, 2)].reshape(-1)
