"""GLM-4.1V, 4.5V, 4.6V, GLM-OCR: any size, positions stretched to the picture, gated projector.

Zhipu AI 2025. As Qwen2-VL's tower patches come in two frames, turn by row and column, and stand at
places of three axes. GLM-OCR has norms of queries and keys in place of learned positions.
"""

from dataclasses import dataclass, replace
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.images.patches import Floats, neighbours
from engine.images.plan import ImagePlan
from engine.images.tiles import enlarged
from engine.layers.linear import Linear, RMSNorm
from engine.layers.vision.blocks import Attention, BlockSpec, GatedBlock, LayerNorm, joined
from engine.layers.vision.stretch import bicubic, mixed, square_shares
from engine.layers.vision.tower import TowerPass, TowerStep
from engine.models.vision import qwen2vl
from engine.models.vision.base import SIDE
from engine.models.vision.qwen2vl import AREA, Frames, QwenTower
from engine.weights.bind import Name
from engine.weights.params import Meta

PROJECTOR_EPS = 1e-5


@dataclass(frozen=True, kw_only=True)
class Params(qwen2vl.Params):
    """Hyperparameters by their GGUF keys; without them a picture has 8 to 6144 rows."""

    image_size: Annotated[int, Meta("vision.image_size", SIDE)] = 336
    least: Annotated[int, Meta("vision.image_min_pixels", AREA)] = 8 * 28**2
    most: Annotated[int, Meta("vision.image_max_pixels", AREA)] = 6144 * 28**2


@dataclass(frozen=True)
class HeadNormedAttention(Attention):
    """Each head's queries and keys are normalised before they turn."""

    q_norm: Annotated[RMSNorm, Name("attn_q_norm")]
    k_norm: Annotated[RMSNorm, Name("attn_k_norm")]

    def normed(self, q: Tensor, k: Tensor, i: int, spec: BlockSpec) -> tuple[Tensor, Tensor]:
        """q and k [D*H, T]."""
        shape = (spec.head_dim, spec.n_head, q.shape[1])
        return (
            self.q_norm(q.reshape(*shape), spec.eps, "v/Qcur_normed", i),
            self.k_norm(k.reshape(*shape), spec.eps, "v/Kcur_normed", i),
        )


@dataclass(frozen=True)
class Block(GatedBlock):
    """Gated, with norms of heads where the file has them."""

    attn: HeadNormedAttention | Attention


@dataclass(frozen=True)
class Placed:
    """Patches are normalised, and get the positions [E, N] of a square."""

    norm: Annotated[RMSNorm, Name("v.norm_embd")]
    positions: Annotated[Tensor, Name("v.position_embd.weight")]

    def __call__(self, x: Tensor, p: TowerPass, eps: float) -> Tensor:
        """x [E, n] -> [E, n]."""
        x = self.norm(x, eps, "v/inp_normed")
        return ops.add(x, mixed(self.positions, p)).named("v/pos_embed")


@dataclass(frozen=True)
class Weights:
    """The tower's and the projector's tensors; `merger` [M, M, E, E'] joins M x M patches."""

    frames: Frames
    bias: Annotated[Tensor, Name("v.patch_embd.bias")]
    placed: Placed | None
    blocks: Annotated[list[Block], Name("v.blk")]
    norm: Annotated[RMSNorm, Name("v.post_ln")]
    merger: Annotated[Tensor, Name("mm.patch_merger.weight")]
    merger_bias: Annotated[Tensor, Name("mm.patch_merger.bias")]
    joint: Annotated[Linear, Name("mm.model.fc")]
    joint_norm: Annotated[LayerNorm, Name("mm.post_norm")]
    gate: Annotated[Linear, Name("mm.gate")]
    up: Annotated[Linear, Name("mm.up")]
    down: Annotated[Linear, Name("mm.down")]


class Model(QwenTower[Params, Weights]):
    """The towers of GLM-4.1V (2025) and those after it."""

    projectors = ("glm4v",)
    hosts = ("glm4", "glm4moe")
    tokens = ("<|begin_of_image|>", "<|end_of_image|>")
    markers = ("<|begin_of_image|><|image|><|end_of_image|>",)
    enlarge = staticmethod(enlarged)

    @property
    def spec(self) -> BlockSpec:
        params = self.params
        return BlockSpec(params.n_head, params.head_dim, params.eps, ops.silu, "neox")

    def inputs(self, pixels: Floats, plan: ImagePlan, view: int) -> TowerStep:
        step, params, placed = super().inputs(pixels, plan, view), self.params, self.weights.placed
        if placed is None:
            return step
        rows, cols = pixels.shape[0] // params.patch, pixels.shape[1] // params.patch
        order = neighbours(cols, rows, params.merge)
        shares = square_shares(placed.positions, bicubic, (rows, cols), order)
        return replace(step, inputs={**step.inputs, "shares": shares})

    def embedded(self, p: TowerPass) -> Tensor:
        params, w = self.params, self.weights
        x = ops.add(w.frames(p, params.patch), w.bias).named("v/patch_bias")
        return x if w.placed is None else w.placed(x, p, params.eps)

    def forward(self, p: TowerPass) -> Tensor:
        params, w = self.params, self.weights
        x = self.embedded(p)
        for i, block in enumerate(w.blocks):
            x = block(x, i, p, self.spec)
        x = w.norm(x, params.eps, "v/post_ln")
        x = joined(x, w.merger, w.merger_bias, params.merge)
        x = w.joint_norm(w.joint(x, "v/mm_fc"), PROJECTOR_EPS, "v/mm_norm")
        x = ops.gelu_erf(x).named("v/mm_fc_act")
        gated = ops.silu(w.gate(x, "v/mm_gate"), w.up(x, "v/mm_up")).named("v/mm_act")
        return w.down(gated, "v/mm_down")
