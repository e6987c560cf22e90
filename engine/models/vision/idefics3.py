"""Idefics 3, SmolVLM: a SigLIP tower over tiles and an overview, s x s patches to a row.

Laurencon et al. 2024, Marafioti et al. 2025. What the first calls pixel shuffle puts neighbouring
patches side by side.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.images import layouts
from engine.images.patches import Floats
from engine.images.plan import ImagePlan, Limits, Size
from engine.layers.linear import Linear
from engine.layers.vision.blocks import Block, BlockSpec, LayerNorm, Patches, Positions, merged
from engine.layers.vision.tower import TowerPass, TowerStep
from engine.models.vision.base import SIDE, Tower, TowerParams
from engine.weights.bind import Name
from engine.weights.params import Meta, Range

TILES = 4
"""Tiles along the longest side, where the file does not say how long that is."""
MOST_TILES = 16
"""Along that side."""


@dataclass(frozen=True, kw_only=True)
class Params(TowerParams):
    """Hyperparameters by their GGUF keys; `longest` is a picture's longest side in pixels."""

    scale: Annotated[int, Meta("vision.projector.scale_factor", Range(1, 1 << 10))]
    longest_side: Annotated[
        int, Meta("vision.preproc_image_size", Range(SIDE.low, SIDE.high, or_zero=True))
    ] = 0

    @property
    def longest(self) -> int:
        """The longest side of a resized picture."""
        return self.longest_side or TILES * self.image_size

    def problem(self) -> str:
        """A contradiction among the parameters, or ""."""
        if problem := super().problem():
            return problem
        if self.longest > MOST_TILES * self.image_size:
            most = f"{MOST_TILES} times vision.image_size {self.image_size}"
            return f"vision.preproc_image_size {self.longest} is above {most}"
        if self.side % self.scale:
            grid = f"vision.image_size and patch_size make {self.side} patches to a side"
            return f"{grid}, which vision.projector.scale_factor {self.scale} does not divide"
        return ""


@dataclass(frozen=True)
class Weights:
    """The tower's and the projector's tensors."""

    patches: Annotated[Patches, Name("v.patch_embd")]
    positions: Annotated[Positions, Name("v.position_embd")]
    blocks: Annotated[list[Block], Name("v.blk")]
    post_norm: Annotated[LayerNorm, Name("v.post_ln")]
    projection: Annotated[Linear, Name("mm.model.fc")]


class Model(Tower[Params, Weights]):
    """Each tile is a pass of its own, all of one size."""

    projectors = ("idefics3",)
    hosts = ("llama",)
    tokens = ("<fake_token_around_image>", "<global-img>")
    markers = ("<image>",)
    filter = "lanczos"

    def plan(self, size: Size, limits: Limits) -> ImagePlan:
        params = self.params
        cell = params.patch * params.scale
        return layouts.idefics3(
            size, limits, edge=params.image_size, longest=params.longest, cell=cell
        )

    def inputs(self, pixels: Floats, plan: ImagePlan, view: int) -> TowerStep:
        return self.square(pixels, self.params.scale)

    def forward(self, p: TowerPass) -> Tensor:
        params, w = self.params, self.weights
        spec = BlockSpec(params.n_head, params.head_dim, params.eps, ops.gelu)
        x = ops.add(w.patches(p, params.patch), w.positions(p))
        for i, block in enumerate(w.blocks):
            x = block(x, i, p, spec)
        x = w.post_norm(x, params.eps, "v/post_ln")
        return w.projection(merged(x, params.scale**2))

    def worst(self, limits: Limits) -> int:
        return self.params.side**2
