"""Janus-Pro: SigLIP over a picture that grey pads to a square, a row for each patch.

DeepSeek-AI 2025. (llama.cpp's tower bends by the approximation of GELU, the published model by GELU
itself, and llama.cpp puts no marks around the rows.)
"""

from dataclasses import dataclass
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.images import layouts
from engine.images.patches import Floats
from engine.images.plan import ImagePlan, Limits, Size
from engine.layers.linear import Linear
from engine.layers.vision.blocks import Block, BlockSpec, LayerNorm, Patches, Positions
from engine.layers.vision.tower import TowerPass, TowerStep
from engine.models.vision.base import Tower, TowerParams
from engine.weights.bind import Name

Params = TowerParams


@dataclass(frozen=True)
class Weights:
    """The tower's and the projector's tensors."""

    patches: Annotated[Patches, Name("v.patch_embd")]
    positions: Annotated[Positions, Name("v.position_embd")]
    blocks: Annotated[list[Block], Name("v.blk")]
    post_norm: Annotated[LayerNorm, Name("v.post_ln")]
    up: Annotated[Linear, Name("mm.0")]
    down: Annotated[Linear, Name("mm.1")]


class Model(Tower[Params, Weights]):
    """Every picture has the same size, so there is one plan."""

    projectors = ("janus_pro",)
    hosts = ("llama",)
    tokens = ("<begin_of_image>", "<end_of_image>")
    markers = ("<image_placeholder>",)
    filter = "bicubic"
    fill = (127, 127, 127)

    def plan(self, size: Size, limits: Limits) -> ImagePlan:
        params, (before, after) = self.params, self.tokens
        edge, patch = params.image_size, params.patch
        return layouts.janus(size, limits, edge=edge, patch=patch, before=before, after=after)

    def inputs(self, pixels: Floats, plan: ImagePlan, view: int) -> TowerStep:
        return self.square(pixels, 1)

    def forward(self, p: TowerPass) -> Tensor:
        params, w = self.params, self.weights
        spec = BlockSpec(params.n_head, params.head_dim, params.eps, ops.gelu_erf)
        x = ops.add(w.patches(p, params.patch), w.positions(p))
        for i, block in enumerate(w.blocks):
            x = block(x, i, p, spec)
        x = w.post_norm(x, params.eps, "v/post_ln")
        return w.down(ops.gelu_erf(w.up(x, "v/mm_up")).named("v/mm_act"), "v/mm_down")

    def worst(self, limits: Limits) -> int:
        return self.params.side**2
