"""Gemma 3: a SigLIP tower whose patches are averaged, k x k to a row.

Gemma Team 2025; the tower is SigLIP's (Zhai et al. 2023). A picture is stretched to a square, and
its rows see one another in the text model.
"""

from dataclasses import dataclass
from math import isqrt
from typing import Annotated

from engine.gguf.formats import F32
from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.images import layouts
from engine.images.patches import Floats
from engine.images.plan import ImagePlan, Limits, Size
from engine.layers.linear import RMSNorm
from engine.layers.vision.blocks import Block, BlockSpec, LayerNorm, Patches, Positions, pooled
from engine.layers.vision.tower import TowerPass, TowerStep
from engine.models.vision.base import Tower, TowerParams
from engine.weights.bind import Name
from engine.weights.params import Meta, Range

FACTOR = 4
"""Patches to a row, along a side, where the file does not say."""


@dataclass(frozen=True, kw_only=True)
class Params(TowerParams):
    """Hyperparameters; an mmproj has `factor`, a single file `rows`."""

    factor: Annotated[
        int, Meta("vision.projector.scale_factor", Range(1, 1 << 10, or_zero=True))
    ] = 0
    rows: Annotated[
        int, Meta("mm.tokens_per_image", Range(1, 1 << 20, or_zero=True), ("mm_tokens_per_image",))
    ] = 0

    @property
    def pool(self) -> int:
        """Patches along a side that become one row."""
        if self.rows and not self.factor:
            return self.side // min(isqrt(self.rows), self.side)
        return self.factor or FACTOR

    def problem(self) -> str:
        """A contradiction among the parameters, or ""."""
        if self.side % self.pool and not super().problem():
            grid = f"vision.image_size and patch_size make {self.side} patches to a side"
            return f"{grid}, which {self.pool} does not divide"
        return super().problem()


@dataclass(frozen=True)
class Weights:
    """The tower's and the projector's tensors."""

    patches: Annotated[Patches, Name("v.patch_embd", alt="v.patch_embedding")]
    positions: Annotated[Positions, Name("v.position_embd", alt="v.position_embedding")]
    blocks: Annotated[list[Block], Name("v.blk")]
    post_norm: Annotated[LayerNorm, Name("v.post_ln", alt="v.post_layernorm")]
    norm: Annotated[RMSNorm, Name("mm.soft_emb_norm", alt="mm.mm_soft_emb_norm")]
    projection: Annotated[
        Tensor, Name("mm.input_projection.weight", alt="mm.mm_input_projection.weight")
    ]


class Model(Tower[Params, Weights]):
    """Every picture has the same size, so there is one plan."""

    projectors = ("gemma3",)
    architectures = ("gemma3",)
    hosts = ("gemma3",)
    tokens = ("<start_of_image>", "<end_of_image>")
    markers = ("<start_of_image>",)

    def plan(self, size: Size, limits: Limits) -> ImagePlan:
        params = self.params
        tokens = (params.side // params.pool) ** 2
        return layouts.gemma3(size, limits, edge=params.image_size, tokens=tokens)

    def inputs(self, pixels: Floats, plan: ImagePlan, view: int) -> TowerStep:
        return self.square(pixels, self.params.pool)

    def forward(self, p: TowerPass) -> Tensor:
        params, w = self.params, self.weights
        spec = BlockSpec(params.n_head, params.head_dim, params.eps, ops.gelu)
        x = ops.add(w.patches(p, params.patch), w.positions(p))
        for i, block in enumerate(w.blocks):
            x = block(x, i, p, spec)
        x = w.post_norm(x, params.eps, "v/post_ln")
        x = w.norm(pooled(x, params.pool**2), params.eps, "v/soft_emb_norm")
        # Stored [T, E], the other way round than every other matrix.
        matrix = ops.contiguous(ops.cast(w.projection, F32).permute(1, 0))
        return ops.matmul(matrix, x)

    def worst(self, limits: Limits) -> int:
        return self.params.side**2
