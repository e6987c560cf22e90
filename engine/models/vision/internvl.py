"""InternVL 2.5, 3, 3.5: InternViT over tiles, patches merged two by two.

Chen et al. 2024. The tower of 6B normalises by root mean square, and queries and keys over their
full width; the one of 300M does neither.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.images import layouts
from engine.images.patches import Floats, cut, neighbours
from engine.images.plan import ImagePlan, Limits, Size
from engine.images.resize import Colour
from engine.layers.linear import Linear, RMSNorm
from engine.layers.vision.blocks import (
    LN1,
    LN2,
    MLP,
    Attention,
    BlockSpec,
    LayerNorm,
    Patches,
    Positions,
    RMSBlock,
    merged,
)
from engine.layers.vision.tower import TowerPass, TowerStep
from engine.models.constants import Values
from engine.models.vision.base import COLOUR, SPREAD, Tower, TowerParams
from engine.weights.bind import Name
from engine.weights.params import Meta, Range

TILES = 12
MOST_TILES = Range(1, 64)
"""Of a picture at most, where the file does not say."""
MERGER_EPS = 1e-5


@dataclass(frozen=True, kw_only=True)
class Params(TowerParams):
    """Hyperparameters by their GGUF keys."""

    scale: Annotated[int, Meta("vision.projector.scale_factor", Range(1, 1 << 6))] = 2
    tiles: Annotated[int, Meta("vision.preproc_max_tiles", MOST_TILES)] = TILES
    mean: Annotated[Colour, Meta("vision.image_mean", COLOUR)] = (0.485, 0.456, 0.406)
    std: Annotated[Colour, Meta("vision.image_std", SPREAD)] = (0.229, 0.224, 0.225)

    def problem(self) -> str:
        """A contradiction among the parameters, or ""."""
        if self.side % self.scale and not super().problem():
            grid = f"vision.image_size and patch_size make {self.side} patches to a side"
            return f"{grid}, which vision.projector.scale_factor {self.scale} does not divide"
        return super().problem()


@dataclass(frozen=True)
class ViTAttention(Attention):
    """With norms of queries and keys where the file has them."""

    q_norm: Annotated[RMSNorm | None, Name("attn_q_norm")]
    k_norm: Annotated[RMSNorm | None, Name("attn_k_norm")]

    def normed(self, q: Tensor, k: Tensor, i: int, spec: BlockSpec) -> tuple[Tensor, Tensor]:
        """q and k [D*H, T]."""
        if self.q_norm is not None:
            q = self.q_norm(q, spec.eps, "v/Qcur_normed", i)
        if self.k_norm is not None:
            k = self.k_norm(k, spec.eps, "v/Kcur_normed", i)
        return q, k


@dataclass(frozen=True)
class ViTBlock(RMSBlock):
    """A block whose attention and feed-forward are scaled channel by channel: [E] each."""

    ln1: Annotated[LayerNorm | RMSNorm, LN1]
    attn: ViTAttention
    ln2: Annotated[LayerNorm | RMSNorm, LN2]
    ffn: MLP
    ls1: Annotated[Tensor, Name("ls1.weight", alt="ls1")]
    ls2: Annotated[Tensor, Name("ls2.weight", alt="ls2")]

    @property
    def optional(self) -> set[str]:
        """Names of those tensors that not each tower has, but each block of it."""
        there = {
            "attn_q_norm.weight": self.attn.q_norm is not None,
            "attn_k_norm.weight": self.attn.k_norm is not None,
            "ln1.bias": isinstance(self.ln1, LayerNorm),
            "ln2.bias": isinstance(self.ln2, LayerNorm),
        }
        return {name for name, is_there in there.items() if is_there}

    def scaled(self, h: Tensor, first: bool) -> Tensor:
        """h [E, T]."""
        return ops.mul(h, self.ls1 if first else self.ls2)


@dataclass(frozen=True)
class Weights:
    """The tower's and the projector's tensors."""

    patches: Annotated[Patches, Name("v.patch_embd")]
    cls: Annotated[Tensor, Name("v.class_embd")]
    positions: Annotated[Positions, Name("v.position_embd")]
    blocks: Annotated[list[ViTBlock], Name("v.blk")]
    norm: Annotated[LayerNorm, Name("mm.model.mlp.0")]
    up: Annotated[Linear, Name("mm.model.mlp.1")]
    down: Annotated[Linear, Name("mm.model.mlp.3")]


class Model(Tower[Params, Weights]):
    """Each tile is a pass of its own, all of one size."""

    projectors = ("internvl",)
    hosts = ("qwen2", "qwen3", "qwen3moe", "internlm2", "llama")
    tokens = ("<img>", "</img>")
    markers = ("<IMG_CONTEXT>", "<image>")
    glue = "\n"
    filter = "bicubic"

    def missing(self, learned: Mapping[str, Values]) -> Sequence[str]:
        """Tensors that one block has and another lacks."""
        names = [block.optional for block in self.weights.blocks]
        everywhere = set().union(*names)
        return [f"v.blk.{i}.{name}" for i, own in enumerate(names) for name in everywhere - own]

    def plan(self, size: Size, limits: Limits) -> ImagePlan:
        params = self.params
        cell = params.patch * params.scale
        return layouts.internvl(size, limits, edge=params.image_size, most=params.tiles, cell=cell)

    def inputs(self, pixels: Floats, plan: ImagePlan, view: int) -> TowerStep:
        side, scale = self.params.side, self.params.scale
        order = neighbours(side, side, scale)
        positions = np.concatenate([np.zeros(1, np.int32), 1 + order])
        inputs = {"patches": cut(pixels, self.params.patch)[order], "positions": positions}
        return TowerStep(side * side, side * side // scale**2, inputs)

    def forward(self, p: TowerPass) -> Tensor:
        params, w = self.params, self.weights
        spec = BlockSpec(params.n_head, params.head_dim, params.eps, ops.gelu_erf)
        x = w.patches(p, params.patch)
        x = ops.concat(ops.cast(w.cls.reshape(params.n_embd, 1), x.fmt), x, 1)
        x = ops.add(x, w.positions(p, classes=1))
        for i, block in enumerate(w.blocks):
            x = block(x, i, p, spec)
        x = merged(ops.contiguous(ops.slice_(x, 1, 1, x.shape[1])), params.scale**2)
        x = w.norm(x, MERGER_EPS, "v/mm_norm")
        return w.down(ops.gelu_erf(w.up(x, "v/mm_up")).named("v/mm_act"))

    def worst(self, limits: Limits) -> int:
        return self.params.side**2
