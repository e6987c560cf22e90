"""PaddleOCR-VL: SigLIP whose patches also turn by row and column, any size, merged 2 x 2.

PaddlePaddle 2025. Positions of a square are stretched to the picture. (llama.cpp's projector bends
by the approximation of GELU, the published model by GELU itself; where a picture has fewer patches
than the square, llama.cpp also averages positions, which the published model does not.)
"""

from dataclasses import dataclass
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.images.patches import Floats
from engine.images.plan import ImagePlan
from engine.images.tiles import enlarged_by_sides
from engine.layers.linear import Linear
from engine.layers.vision.blocks import Block, BlockSpec, LayerNorm, Patches, merged
from engine.layers.vision.stretch import half_pixels, mixed_corners
from engine.layers.vision.tower import TowerPass, TowerStep
from engine.models.vision import qwen2vl
from engine.models.vision.qwen2vl import AREA, QwenTower, bent
from engine.weights.bind import Name
from engine.weights.params import Meta

PROJECTOR_EPS = 1e-5


@dataclass(frozen=True, kw_only=True)
class Params(qwen2vl.Params):
    """Hyperparameters by their GGUF keys."""

    least: Annotated[int, Meta("vision.image_min_pixels", AREA)] = 384**2
    most: Annotated[int, Meta("vision.image_max_pixels", AREA)] = 1536**2


@dataclass(frozen=True)
class Weights:
    """The tower's and the projector's tensors; positions [E, N] of a square."""

    patches: Annotated[Patches, Name("v.patch_embd")]
    positions: Annotated[Tensor, Name("v.position_embd.weight")]
    blocks: Annotated[list[Block], Name("v.blk")]
    norm: Annotated[LayerNorm, Name("v.post_ln")]
    merged_norm: Annotated[LayerNorm, Name("mm.input_norm")]
    up: Annotated[Linear, Name("mm.1")]
    down: Annotated[Linear, Name("mm.2")]


class Model(QwenTower[Params, Weights]):
    """The tower of PaddleOCR-VL (2025)."""

    projectors = ("paddleocr",)
    hosts = ("paddleocr",)
    tokens = ("<|IMAGE_START|>", "<|IMAGE_END|>")
    markers = ("<|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>",)
    enlarge = staticmethod(enlarged_by_sides)

    @property
    def spec(self) -> BlockSpec:
        params = self.params
        return BlockSpec(params.n_head, params.head_dim, params.eps, ops.gelu, "neox")

    def inputs(self, pixels: Floats, plan: ImagePlan, view: int) -> TowerStep:
        step = super().inputs(pixels, plan, view)
        return self.with_corners(step, self.weights.positions, half_pixels, pixels)

    def embedded(self, p: TowerPass) -> Tensor:
        w = self.weights
        x = w.patches(p, self.params.patch)
        return ops.add(x, mixed_corners(w.positions, p)).named("v/pos_embed")

    def forward(self, p: TowerPass) -> Tensor:
        params, w = self.params, self.weights
        x = self.embedded(p)
        for i, block in enumerate(w.blocks):
            x = block(x, i, p, self.spec)
        x = w.merged_norm(w.norm(x, params.eps, "v/post_ln"), PROJECTOR_EPS, "v/mm_norm")
        return bent(w.up, w.down, merged(x, params.merge**2))
