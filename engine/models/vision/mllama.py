"""Llama 3.2 Vision: up to four tiles in one sequence, for layers of cross attention.

Meta 2024. The tiles of a picture see one another. A learned table gives each the tile and
arrangement it is. Some blocks' inputs are put beside the last one's output, feature by feature.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from engine.errors import ShapeError
from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.images import layouts
from engine.images.patches import Floats, cut
from engine.images.plan import ImagePlan, Limits, Size
from engine.images.resize import Colour
from engine.layers.linear import Linear
from engine.layers.vision.blocks import Block, BlockSpec, LayerNorm, Patches, check_places
from engine.layers.vision.tower import TowerPass, TowerStep
from engine.models.vision.base import CLIP_MEAN, CLIP_STD, COLOUR, SPREAD, Tower, TowerParams
from engine.weights.bind import Name
from engine.weights.params import COUNT, EPSILON, Meta, Range

TILES = "tiles"
"""The sight of a pass: who sees whom among rows that count, padding and unused tiles."""
MULTIPLE = 8
"""Rows of a tile are padded up to it; rows that count see the padding."""


@dataclass(frozen=True, kw_only=True)
class Params(TowerParams):
    """Hyperparameters by their GGUF keys; `kept` are the blocks whose inputs become features."""

    eps: Annotated[float, Meta("vision.attention.layer_norm_epsilon", EPSILON)] = 1e-5
    n_global: Annotated[int, Meta("vision.global.block_count", COUNT)]
    tiles: Annotated[int, Meta("vision.max_num_tiles", Range(1, 16))] = 4
    kept: Annotated[
        tuple[int, ...], Meta("vision.intermediate_layers_indices", Range(0, COUNT.high))
    ]
    mean: Annotated[Colour, Meta("vision.image_mean", COLOUR)] = CLIP_MEAN
    std: Annotated[Colour, Meta("vision.image_std", SPREAD)] = CLIP_STD

    @property
    def arrangements(self) -> list[tuple[int, int]]:
        """(rows, columns) of tiles; their ids count from 1."""
        sides = range(1, self.tiles + 1)
        return [(rows, cols) for rows in sides for cols in sides if rows * cols <= self.tiles]

    def problem(self) -> str:
        """A contradiction among the parameters, or ""."""
        beyond = [i for i in self.kept if i >= self.n_layer]
        if beyond and not super().problem():
            key = f"vision.intermediate_layers_indices has {beyond[0]}"
            return f"{key}, vision.block_count is {self.n_layer}"
        return super().problem()


@dataclass(frozen=True)
class GatedTable:
    """A table of learned rows and the factor of what is looked up."""

    weight: Annotated[Tensor, Name("weight")]
    gate: Annotated[Tensor, Name("gate")]


@dataclass(frozen=True)
class ByArrangement(GatedTable):
    """weight [E * places, 9]: a row for each arrangement, the first for none."""

    def __call__(self, p: TowerPass, size: int, places: int, params: Params) -> Tensor:
        """[E, places, tiles] of the input `arrangement`."""
        tiles, count = params.tiles, len(params.arrangements) + 1
        if self.weight.dims != (size * places * tiles, count):
            problem = f"there are {tiles} tiles in {count - 1} arrangements"
            raise ShapeError(self.weight.name, problem, self.weight.shape)
        row = ops.rows(self.weight, p.ints("arrangement", 1))
        return ops.mul(row, self.gate).reshape(size, places, tiles)


@dataclass(frozen=True)
class ScaledBlock(Block):
    """A block whose attention and feed-forward are multiplied by a number."""

    attn_gate: Annotated[Tensor, Name("attn_gate")]
    ffn_gate: Annotated[Tensor, Name("ffn_gate")]

    def scaled(self, h: Tensor, first: bool) -> Tensor:
        """h [E, T]."""
        return ops.mul(h, self.attn_gate if first else self.ffn_gate)


@dataclass(frozen=True)
class Weights:
    """The tower's and the projector's tensors. The file holds gates as what they multiply by: tanh
    of what was learned, and of positions 1 - tanh.
    """

    patches: Annotated[Patches, Name("v.patch_embd")]
    cls: Annotated[Tensor, Name("v.class_embd")]
    positions: Annotated[GatedTable, Name("v.position_embd")]
    tile_positions: Annotated[ByArrangement, Name("v.tile_position_embd")]
    before: Annotated[ByArrangement, Name("v.pre_tile_position_embd")]
    after: Annotated[ByArrangement, Name("v.post_tile_position_embd")]
    pre_norm: Annotated[LayerNorm, Name("v.pre_ln")]
    blocks: Annotated[list[Block], Name("v.blk")]
    post_norm: Annotated[LayerNorm, Name("v.post_ln")]
    global_blocks: Annotated[list[ScaledBlock], Name("v.global.blk")]
    projection: Annotated[Linear, Name("mm.0")]


class Model(Tower[Params, Weights]):
    """One pass makes the rows of all tiles, the unused ones computed too: they are seen."""

    projectors = ()
    architectures = ("mllama",)
    hosts = ("mllama",)
    tokens = ("<|image|>",)
    markers = ("<|image|>",)

    def plan(self, size: Size, limits: Limits) -> ImagePlan:
        params = self.params
        edge, patch = params.image_size, params.patch
        return layouts.mllama(size, limits, edge=edge, most=params.tiles, patch=patch)

    def passes(self, plan: ImagePlan) -> Sequence[int]:
        return range(1)

    @property
    def rows(self) -> int:
        """Rows of a tile: its class and its patches."""
        return 1 + self.params.side**2

    @property
    def padded(self) -> int:
        """Rows of a tile in the sequence."""
        return -(-self.rows // MULTIPLE) * MULTIPLE

    def inputs(self, pixels: Floats, plan: ImagePlan, view: int) -> TowerStep:
        params, used, n = self.params, len(plan.views), self.params.side**2
        tiles = pixels.reshape(used, params.image_size, params.image_size, 3)
        patches = np.zeros((params.tiles, n, 3 * params.patch**2), np.float32)
        patches[:used] = [cut(tile, params.patch) for tile in tiles]
        shape = max(v.row for v in plan.views) + 1, max(v.col for v in plan.views) + 1
        arrangement = 1 + params.arrangements.index(shape)
        inputs = {
            "patches": patches.reshape(params.tiles * n, -1),
            "arrangement": np.array([arrangement], np.int32),
            **self._sight(used),
        }
        return TowerStep(params.tiles * n, used * self.rows, inputs)

    def _sight(self, used: int) -> dict[str, np.ndarray]:
        """Padding and unused tiles do not see one another; all else sees all, padding too."""
        counts = np.zeros((self.params.tiles, self.padded), np.bool_)
        counts[:used, : self.rows] = True
        counts = counts.reshape(-1, 1)
        spans = np.where(counts, [3, 0, 0, 0], [1, 0, 0, 0]).astype(np.int32)
        cells = np.where(counts, [1, 0], [2, 0]).astype(np.int32)
        return {f"{TILES}_spans": spans, f"{TILES}_cells": cells}

    def embedded(self, p: TowerPass) -> Tensor:
        """[E, rows, tiles]."""
        params, w = self.params, self.weights
        size, tiles, n = params.n_embd, params.tiles, params.side**2
        x = w.patches(p, params.patch).reshape(size, n, tiles)
        x = ops.add(x, w.before(p, size, 1, params))
        cls = ops.cast(w.cls.reshape(size, 1, 1), x.fmt)
        x = ops.concat(ops.repeat(cls, 2, tiles), x, 1)
        check_places(w.positions.weight, self.rows)
        positions = ops.mul(ops.cast(w.positions.weight, x.fmt), w.positions.gate)
        x = ops.add(x, positions)
        return ops.add(x, w.tile_positions(p, size, self.rows, params)).named("v/pos_embed")

    def forward(self, p: TowerPass) -> Tensor:
        params, w = self.params, self.weights
        if len(w.global_blocks) != params.n_global:
            made = f"the tensors make {len(w.global_blocks)} blocks"
            raise ShapeError("vision.global.block_count", f"is {params.n_global} but {made}")
        size, tiles, rows = params.n_embd, params.tiles, self.padded
        spec = BlockSpec(params.n_head, params.head_dim, params.eps, ops.gelu_erf)
        x = w.pre_norm(self.embedded(p), params.eps, "v/pre_ln")
        x = ops.pad(x, 0, rows - self.rows).reshape(size, rows * tiles)
        kept = []
        for i, block in enumerate(w.blocks):
            if i in params.kept:
                kept.append(x)
            x = block(x, i, p, spec, TILES)
        x = w.post_norm(x, params.eps, "v/post_ln").reshape(size, rows, tiles)
        x = ops.add(x, w.after(p, size, 1, params)).reshape(size, rows * tiles)
        for i, block in enumerate(w.global_blocks, len(w.blocks)):
            x = block(x, i, p, spec, TILES)
        features = [self._cropped(x)]
        if kept:
            # Feature by feature: the same of all kept blocks stand together.
            planes = [self._cropped(h).reshape(1, size, self.rows * tiles) for h in kept]
            features.append(ops.stack(0, *planes).reshape(len(kept) * size, self.rows * tiles))
        return w.projection(ops.stack(0, *features))

    def _cropped(self, x: Tensor) -> Tensor:
        """Without padding: [E, padded * tiles] -> [E, rows * tiles]."""
        size, tiles = self.params.n_embd, self.params.tiles
        whole = x.reshape(size, self.padded, tiles)
        return ops.contiguous(ops.slice_(whole, 1, 0, self.rows), size, self.rows * tiles)

    def bucket(self, n: int) -> int:
        return self.params.tiles * self.params.side**2

    def worst(self, limits: Limits) -> int:
        return self.bucket(0)
