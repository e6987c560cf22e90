"""dots.ocr: as Qwen2.5-VL's without windows, its patches normalised, before Qwen2.

rednote-hilab 2025. Rows stand at the places of tokens, one after the other.
"""

from dataclasses import dataclass
from typing import Annotated

import msgspec

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.images.plan import ImagePlan, Limits, Size
from engine.layers.linear import Linear, RMSNorm
from engine.layers.vision.blocks import BlockSpec, GatedBlock, LayerNorm, Patches, merged
from engine.layers.vision.tower import TowerPass
from engine.models.vision import qwen2vl
from engine.models.vision.base import SIDE
from engine.models.vision.qwen2vl import AREA, QwenTower, bent
from engine.weights.bind import Name
from engine.weights.params import EPSILON, Meta, Range

PROJECTOR_EPS = 1e-6


@dataclass(frozen=True, kw_only=True)
class Params(qwen2vl.Params):
    """Hyperparameters by their GGUF keys; an `image_size` of 0 stands for any."""

    image_size: Annotated[
        int, Meta("vision.image_size", Range(SIDE.low, SIDE.high, or_zero=True))
    ] = 0
    eps: Annotated[float, Meta("vision.attention.layer_norm_epsilon", EPSILON)] = 1e-5
    merge: Annotated[int, Meta("vision.projector.scale_factor", Range(1, 1 << 6))] = 2
    most: Annotated[int, Meta("vision.image_max_pixels", AREA)] = 11289600


@dataclass(frozen=True)
class Weights:
    """The tower's and the projector's tensors."""

    patches: Annotated[Patches, Name("v.patch_embd")]
    pre_norm: Annotated[RMSNorm, Name("v.pre_ln")]
    blocks: Annotated[list[GatedBlock], Name("v.blk")]
    norm: Annotated[RMSNorm, Name("mm.post_norm")]
    merged_norm: Annotated[LayerNorm, Name("mm.input_norm")]
    up: Annotated[Linear, Name("mm.0")]
    down: Annotated[Linear, Name("mm.2")]


class Model(QwenTower[Params, Weights]):
    """The tower of dots.ocr (2025)."""

    projectors = ("dots_ocr",)
    hosts = ("qwen2",)
    tokens = ("<|img|>", "<|endofimg|>")
    markers = ("<|img|><|imgpad|><|endofimg|>",)
    axes = False

    @property
    def spec(self) -> BlockSpec:
        params = self.params
        return BlockSpec(params.n_head, params.head_dim, params.eps, ops.silu, "neox")

    def plan(self, size: Size, limits: Limits) -> ImagePlan:
        return msgspec.structs.replace(super().plan(size, limits), advance=None)

    def embedded(self, p: TowerPass) -> Tensor:
        params, w = self.params, self.weights
        return w.pre_norm(w.patches(p, params.patch), params.eps, "v/pre_ln")

    def forward(self, p: TowerPass) -> Tensor:
        params, w = self.params, self.weights
        x = self.embedded(p)
        for i, block in enumerate(w.blocks):
            x = block(x, i, p, self.spec)
        x = w.merged_norm(w.norm(x, params.eps, "v/post_ln"), PROJECTOR_EPS, "v/mm_norm")
        return bent(w.up, w.down, merged(x, params.merge**2))
