"""Gemma 4: pictures of any shape, a learned row for each column and row of patches.

Gemma Team 2026. Heads turn by column and row, values are normalised, matrices may bound what
enters and leaves them; k x k patches are averaged to a row. Rows of a picture see one another in
the windowed layers of the large models.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, sqrt
from typing import Annotated, NamedTuple, Protocol, TypeVar

import numpy as np

from engine.errors import ShapeError
from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.images import layouts
from engine.images.patches import Floats, cut, neighbours
from engine.images.plan import ImagePlan, Limits, Size
from engine.images.resize import Colour
from engine.layers.linear import Linear, RMSNorm
from engine.layers.rope import grid_table
from engine.layers.vision.blocks import Patches, pooled
from engine.layers.vision.tower import TowerPass, TowerStep, bucket_of
from engine.models.constants import Constant
from engine.models.vision.base import COLOUR, SPREAD, Tower, TowerParams, TowerWeights
from engine.models.vision.qwen2vl import AREA
from engine.weights.bind import Name
from engine.weights.params import Meta, Range

TOKENS = 280
"""Rows of a picture at most, where the file does not say how many pixels."""
BASE = 100.0
PARTS = ("attn_q", "attn_k", "attn_v", "attn_out", "ffn_gate", "ffn_up", "ffn_down")
EDGES = ("input_min", "input_max", "output_min", "output_max")
ANY = Range(-inf, inf)


@dataclass(frozen=True, kw_only=True)
class PictureParams(TowerParams):
    """Hyperparameters of a picture's rows: k x k patches, k being `pool`, become one."""

    pool: Annotated[int, Meta("vision.projector.scale_factor", Range(1, 1 << 6))] = 3
    most: Annotated[int, Meta("vision.image_max_pixels", AREA)] = 0
    mean: Annotated[Colour, Meta("vision.image_mean", COLOUR)] = (0.0, 0.0, 0.0)
    std: Annotated[Colour, Meta("vision.image_std", SPREAD)] = (1.0, 1.0, 1.0)

    @property
    def cell(self) -> int:
        """Pixels along a side that become one row."""
        return self.patch * self.pool

    @property
    def tokens(self) -> int:
        """Rows of a picture at most."""
        return self.most // self.cell**2 if self.most else TOKENS

    def problem(self) -> str:
        """A contradiction among the parameters, or ""."""
        if self.most and not self.tokens:
            return f"vision.image_max_pixels {self.most} is less than a picture must have"
        return ""


@dataclass(frozen=True, kw_only=True)
class Params(PictureParams):
    """Hyperparameters of a tower."""

    def problem(self) -> str:
        """A contradiction among the parameters, or ""."""
        problem = super().problem() or TowerParams.problem(self)
        if self.head_dim % 4 and not problem:
            return f"heads of {self.head_dim} cannot turn by columns and rows: no multiple of 4"
        return problem

    def constants(self) -> Sequence[Constant]:
        blocks = product(range(self.n_layer), PARTS, EDGES)
        return [Constant(f"v.blk.{i}.{part}.{edge}", (1,), ANY) for i, part, edge in blocks]


class Bounds(NamedTuple):
    """Least and most of what enters a matrix, then of what leaves it."""

    input_min: float = -inf
    input_max: float = inf
    output_min: float = -inf
    output_max: float = inf


@dataclass(frozen=True)
class BlockSpec:
    """The numbers of a block: `bounds` by the matrix, none where the file has none."""

    n_head: int
    head_dim: int
    eps: float
    bounds: Mapping[str, Bounds]


@dataclass(frozen=True)
class Block:
    """x += n A(n x); x += n F(n x), all norms by root mean square."""

    ln1: Annotated[RMSNorm, Name("ln1")]
    q: Annotated[Linear, Name("attn_q")]
    k: Annotated[Linear, Name("attn_k")]
    v: Annotated[Linear, Name("attn_v")]
    q_norm: Annotated[RMSNorm, Name("attn_q_norm")]
    k_norm: Annotated[RMSNorm, Name("attn_k_norm")]
    out: Annotated[Linear, Name("attn_out")]
    attn_post_norm: Annotated[RMSNorm, Name("attn_post_norm")]
    ln2: Annotated[RMSNorm, Name("ln2")]
    gate: Annotated[Linear, Name("ffn_gate")]
    up: Annotated[Linear, Name("ffn_up")]
    down: Annotated[Linear, Name("ffn_down")]
    ffn_post_norm: Annotated[RMSNorm, Name("ffn_post_norm")]

    def __call__(self, x: Tensor, i: int, p: TowerPass, spec: BlockSpec) -> Tensor:
        """x [E, T] -> [E, T] in block i."""
        h = self.attention(self.ln1(x, spec.eps, "v/layer_inp_normed", i), i, p, spec)
        x = ops.add(self.attn_post_norm(h, spec.eps, "v/attn_post_normed", i), x)
        x = x.named("v/ffn_inp", i)
        h = self.ln2(x, spec.eps, "v/ffn_inp_normed", i)
        gate, up = _bounded(self.gate, h, "ffn_gate", spec), _bounded(self.up, h, "ffn_up", spec)
        h = ops.gelu(gate, up).named("v/ffn_act", i)
        h = _bounded(self.down, h, "ffn_down", spec).named("v/ffn_out", i)
        h = self.ffn_post_norm(h, spec.eps, "v/ffn_post_normed", i)
        return p.pause(ops.add(h, x).named("v/layer_out", i))

    def attention(self, x: Tensor, i: int, p: TowerPass, spec: BlockSpec) -> Tensor:
        """x [E, T] -> [E, T]; scores are not scaled."""
        shape = (spec.head_dim, spec.n_head, x.shape[1])
        table = p.floats("rope", spec.head_dim, x.shape[1])

        def turned(heads: Tensor, norm: RMSNorm, name: str) -> Tensor:
            normed = norm(heads.reshape(*shape), spec.eps, f"{name}_normed", i)
            return ops.rope(_paired(normed), table, neox=True).named(f"{name}_rope", i)

        q = turned(_bounded(self.q, x, "attn_q", spec), self.q_norm, "v/Qcur")
        k = turned(_bounded(self.k, x, "attn_k", spec), self.k_norm, "v/Kcur")
        v = ops.rms_norm(_bounded(self.v, x, "attn_v", spec).reshape(*shape), None, spec.eps)
        mixed = p.attend(q, k, v.named("v/Vcur_normed", i), 1.0).named("v/kqv_out", i)
        return _bounded(self.out, mixed, "attn_out", spec).named("v/attn_out", i)


def _bounded(matrix: Linear, x: Tensor, part: str, spec: BlockSpec) -> Tensor:
    bounds = spec.bounds.get(part)
    if bounds is None:
        return matrix(x)
    x = ops.clamp(x, bounds.input_min, bounds.input_max)
    return ops.clamp(matrix(x), bounds.output_min, bounds.output_max)


def _paired(x: Tensor) -> Tensor:
    """Heads [D, H, T] whose halves turn by themselves, with the channels in the order in which
    channel j turns with j + D/2: quarters 0, 2, 1, 3. Scores do not depend on the order.
    """
    quarter, heads = x.shape[0] // 4, x.shape[1] * x.shape[2]
    quarters = x.reshape(quarter, 2, 2, heads).permute(0, 2, 1, 3)
    return ops.contiguous(quarters).reshape(*x.shape[:3])


@dataclass(frozen=True)
class Standard:
    """(x - bias) * scale, [E] each."""

    bias: Annotated[Tensor, Name("v.std_bias")]
    scale: Annotated[Tensor, Name("v.std_scale")]

    def __call__(self, x: Tensor) -> Tensor:
        """x [E, rows]."""
        return ops.mul(ops.sub(x, self.bias), self.scale)


@dataclass(frozen=True)
class Weights:
    """The tower's and the projector's tensors; positions [E, N, 2] of columns and of rows."""

    patches: Annotated[Patches, Name("v.patch_embd")]
    positions: Annotated[Tensor, Name("v.position_embd.weight")]
    blocks: Annotated[list[Block], Name("v.blk")]
    standard: Standard | None
    projection: Annotated[Linear, Name("mm.input_projection")]


class PlacedWeights(TowerWeights, Protocol):
    """Positions [E, N, 2] of columns and of rows."""

    @property
    def positions(self) -> Tensor: ...


P = TypeVar("P", bound=PictureParams)
W = TypeVar("W", bound=PlacedWeights)


class PlacedTower(Tower[P, W]):
    """Pictures of any shape, a learned row for each column and each row."""

    hosts = ("gemma4",)
    tokens = ("<|image>", "<image|>")
    markers = ("<|image|>",)
    filter = "bicubic"

    def plan(self, size: Size, limits: Limits) -> ImagePlan:
        params, causal = self.params, not self.host.joins_pictures
        return layouts.gemma4(size, limits, cell=params.cell, tokens=params.tokens, causal=causal)

    @property
    def n_places(self) -> int:
        """Columns, and rows, that have a learned position."""
        return self.weights.positions.shape[1]

    def placed(self, p: TowerPass, most: int) -> Tensor:
        """Positions [E, n]: a column's and a row's, of which there may be so many."""
        table = self.weights.positions
        if table.shape[2:] != (2, 1) or self.n_places < most:
            problem = f"expected a place for {most} columns and {most} rows"
            raise ShapeError(table.name, problem, table.shape)
        both = table.reshape(table.shape[0], 2 * table.shape[1])
        return ops.add(ops.rows(both, p.ints("column", p.n)), ops.rows(both, p.ints("row", p.n)))


class Model(PlacedTower[Params, Weights]):
    """Plans have buckets of patches."""

    projectors = ("gemma4v",)

    def inputs(self, pixels: Floats, plan: ImagePlan, view: int) -> TowerStep:
        params = self.params
        rows, cols = pixels.shape[0] // params.patch, pixels.shape[1] // params.patch
        order = neighbours(cols, rows, params.pool)
        y, x = np.divmod(order, np.int32(cols))
        inputs = {
            "patches": cut(2 * pixels - 1, params.patch)[order],
            "column": x,
            "row": y + np.int32(self.n_places),
            "rope": grid_table(x, y, params.head_dim, BASE),
        }
        return TowerStep(len(order), len(order) // params.pool**2, inputs)

    def forward(self, p: TowerPass) -> Tensor:
        params, w = self.params, self.weights
        x = ops.add(w.patches(p, params.patch), self.placed(p, params.tokens * params.pool))
        x = x.named("v/pos_embd")
        for i, block in enumerate(w.blocks):
            x = block(x, i, p, self.spec(i))
        x = ops.scale(pooled(x, params.pool**2), sqrt(params.n_embd)).named("v/pooled")
        if w.standard is not None:
            x = w.standard(x).named("v/std_scaled")
        return w.projection(ops.rms_norm(x, None, params.eps), "v/projected")

    def spec(self, i: int) -> BlockSpec:
        """The numbers of block i."""
        params, bounds = self.params, {}
        for part in PARTS:
            read = {edge: self.constants.get(f"v.blk.{i}.{part}.{edge}") for edge in EDGES}
            found = {edge: float(value[0]) for edge, value in read.items() if value is not None}
            if found:
                bounds[part] = Bounds(**found)
        return BlockSpec(params.n_head, params.head_dim, params.eps, bounds)

    def bucket(self, n: int) -> int:
        return bucket_of(n, self.params.pool**2)

    def worst(self, limits: Limits) -> int:
        most = self.params.tokens
        return self.bucket(min(most, limits.rows or most) * self.params.pool**2)
