"""Qwen2.5-VL, Qwen2.5-Omni: as Qwen2-VL's tower, with windows in most blocks (Bai et al. 2025)."""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.images.patches import Floats
from engine.images.plan import ImagePlan
from engine.layers.linear import Linear, RMSNorm
from engine.layers.vision.blocks import BlockSpec, GatedBlock
from engine.layers.vision.tower import EVERYTHING, TowerPass, TowerStep, groups
from engine.models.vision import qwen2vl
from engine.models.vision.base import SIDE
from engine.models.vision.qwen2vl import Frames, QwenTower
from engine.weights.bind import Name
from engine.weights.params import COUNT, Meta, Range

WINDOW = "window"


@dataclass(frozen=True, kw_only=True)
class Params(qwen2vl.Params):
    """Hyperparameters by their GGUF keys.

    An mmproj says that each so many-th block sees everything (`full_every`), a single file which
    blocks do; one version wrote the architecture twice into that key.
    """

    window: Annotated[int, Meta("vision.window_size", SIDE)] = 112
    full_every: Annotated[int, Meta("vision.n_wa_pattern", Range(1, COUNT.high, or_zero=True))] = 0
    full: Annotated[
        tuple[int, ...],
        Meta(
            "vision.fullatt_block_indexes",
            Range(0, COUNT.high),
            alt=("qwen25vl.vision.fullatt_block_indexes",),
        ),
    ] = (7, 15, 23, 31)

    def problem(self) -> str:
        """A contradiction among the parameters, or ""."""
        if self.window < self.cell and not super().problem():
            return f"vision.window_size {self.window} is less than a cell of {self.cell} pixels"
        return super().problem()

    def is_full(self, i: int) -> bool:
        """True if block i sees everything."""
        return (i + 1) % self.full_every == 0 if self.full_every else i in self.full


@dataclass(frozen=True)
class Weights:
    """The tower's and the projector's tensors."""

    frames: Frames
    blocks: Annotated[list[GatedBlock], Name("v.blk")]
    norm: Annotated[RMSNorm, Name("v.post_ln", alt="v.merger.ln_q")]
    up: Annotated[Linear, Name("mm.0", alt="v.merger.mlp.0")]
    down: Annotated[Linear, Name("mm.2", alt="v.merger.mlp.2")]


class Model(QwenTower[Params, Weights]):
    """A window is a number that its patches share; none is moved."""

    projectors = ("qwen2.5vl_merger", "qwen2.5o")
    architectures = ("qwen25vl",)
    hosts = ("qwen2vl", "qwen25vl")

    def embedded(self, p: TowerPass) -> Tensor:
        return self.weights.frames(p, self.params.patch)

    @property
    def spec(self) -> BlockSpec:
        params = self.params
        return BlockSpec(params.n_head, params.head_dim, params.eps, ops.silu, "neox")

    def sight(self, i: int) -> str:
        return EVERYTHING if self.params.is_full(i) else WINDOW

    def inputs(self, pixels: Floats, plan: ImagePlan, view: int) -> TowerStep:
        step, params = super().inputs(pixels, plan, view), self.params
        cols, side = pixels.shape[1] // params.cell, params.window // params.cell
        row, col = np.divmod(np.arange(step.rows, dtype=np.int32), np.int32(cols))
        windows = row // side * -(-cols // side) + col // side
        numbers = np.repeat(windows, params.merge**2)
        return replace(step, inputs={**step.inputs, **groups(WINDOW, numbers)})
