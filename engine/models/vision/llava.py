"""LLaVA 1.5, 1.6: CLIP's tower without its last block, and a two-layer projector.

Liu et al. 2023, 2024. Version 1.6 cuts a picture into tiles, with a learned row at the end of each
line of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.images import layouts
from engine.images.patches import Floats, cut
from engine.images.plan import ImagePlan, Limits, Size
from engine.images.resize import Colour, Rule
from engine.layers.linear import Linear
from engine.layers.vision.blocks import Block, BlockSpec, LayerNorm, Patches, Positions
from engine.layers.vision.tower import TowerPass, TowerStep
from engine.models.constants import Values
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
from engine.weights.params import COUNT, EPSILON, Meta, Range

MEAN_COLOUR = (122, 116, 104)
TILES = 64
"""Of a canvas at most."""


@dataclass(frozen=True, kw_only=True)
class Params(TowerParams):
    """Hyperparameters by their GGUF keys.

    `features` are the blocks whose output is taken, counted from 1: none means the last that the
    file holds. `pinpoints` are widths and heights that tiles may cover, by turns.
    """

    eps: Annotated[float, Meta("vision.attention.layer_norm_epsilon", EPSILON)] = 1e-5
    use_gelu: Annotated[bool, Meta("use_gelu", Range(0, 1))] = False
    features: Annotated[tuple[int, ...], Meta("vision.feature_layer", COUNT)] = ()
    pinpoints: Annotated[tuple[int, ...], Meta("vision.image_grid_pinpoints", SIDE)] = ()
    mean: Annotated[Colour, Meta("vision.image_mean", COLOUR)] = CLIP_MEAN
    std: Annotated[Colour, Meta("vision.image_std", SPREAD)] = CLIP_STD

    @property
    def canvases(self) -> list[Size]:
        """Sizes that tiles may cover."""
        sizes = zip(self.pinpoints[::2], self.pinpoints[1::2], strict=False)
        return [Size(w, h) for w, h in sizes]

    def problem(self) -> str:
        """A contradiction among the parameters, or ""."""
        beyond = [layer for layer in self.features if layer > self.n_layer]
        if beyond:
            return f"vision.feature_layer {beyond[0]} is above vision.block_count {self.n_layer}"
        if len(self.pinpoints) % 2:
            return "vision.image_grid_pinpoints are not pairs of a width and a height"
        for size in self.canvases:
            tiles = size.w * size.h / self.image_size**2
            if size.w % self.image_size or size.h % self.image_size or tiles > TILES:
                whole = f"up to {TILES} tiles of vision.image_size {self.image_size}"
                return f"vision.image_grid_pinpoints has {size}, which is not {whole}"
        return super().problem()


@dataclass(frozen=True)
class Weights:
    """The tower's and the projector's tensors; towers after SigLIP have no class."""

    patches: Annotated[Patches, Name("v.patch_embd")]
    cls: Annotated[Tensor | None, Name("v.class_embd")]
    positions: Annotated[Positions, Name("v.position_embd")]
    pre_norm: Annotated[LayerNorm | None, Name("v.pre_ln")]
    blocks: Annotated[list[Block], Name("v.blk")]
    up: Annotated[Linear, Name("mm.0")]
    down: Annotated[Linear, Name("mm.2")]


class Model(Tower[Params, Weights]):
    """The class row stands first, and is dropped with it."""

    projectors = ("mlp",)
    hosts = ("llama",)
    markers = ("<image>",)
    glue = "\n"
    ignored = ("v.post_ln.",)
    learned = {"image_newline": ("v.image_newline", "model.image_newline")}
    filter = "bicubic"

    @property
    def classes(self) -> int:
        """Rows before those of patches."""
        return 0 if self.weights.cls is None else 1

    @property
    def rule(self) -> Rule:
        """Version 1.5 pads with the mean colour, version 1.6 with black."""
        fill = (0, 0, 0) if self.params.pinpoints else MEAN_COLOUR
        return msgspec.structs.replace(super().rule, fill=fill)

    def missing(self, learned: Mapping[str, Values]) -> Sequence[str]:
        newline = "image_newline"
        is_tiled = bool(self.params.pinpoints)
        return [self.learned[newline][0]] if is_tiled and newline not in learned else []

    def plan(self, size: Size, limits: Limits) -> ImagePlan:
        edge, patch = self.params.image_size, self.params.patch
        if not self.params.pinpoints:
            return layouts.llava(size, limits, edge=edge, patch=patch)
        canvases = self.params.canvases
        return layouts.llava_next(size, limits, edge=edge, patch=patch, canvases=canvases)

    def inputs(self, pixels: Floats, plan: ImagePlan, view: int) -> TowerStep:
        n = self.params.side**2
        positions = np.arange(n + self.classes, dtype=np.int32)
        return TowerStep(n, n, {"patches": cut(pixels, self.params.patch), "positions": positions})

    def forward(self, p: TowerPass) -> Tensor:
        params, w = self.params, self.weights
        activation = ops.gelu if params.use_gelu else ops.quick_gelu
        spec = BlockSpec(params.n_head, params.head_dim, params.eps, activation)
        x = w.patches(p, params.patch)
        if w.cls is not None:
            x = ops.concat(ops.cast(w.cls.reshape(params.n_embd, 1), x.fmt), x, 1)
        x = ops.add(x, w.positions(p, classes=self.classes))
        if w.pre_norm is not None:
            x = w.pre_norm(x, params.eps, "v/pre_ln")
        taken = []
        for i, block in enumerate(w.blocks[: max(params.features, default=params.n_layer)]):
            x = block(x, i, p, spec)
            if i + 1 in params.features:
                taken.append(x)
        x = ops.stack(0, *(taken or [x]))
        if w.cls is not None:
            x = ops.contiguous(ops.slice_(x, 1, 1, x.shape[1]))
        return w.down(ops.gelu_erf(w.up(x, "v/mm_up")).named("v/mm_act"))

    def worst(self, limits: Limits) -> int:
        return self.params.side**2
