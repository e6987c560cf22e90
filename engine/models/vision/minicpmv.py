"""MiniCPM-V 2.5 to 4.5: SigLIP over a picture and its slices, and queries that look at each.

Yao et al. 2024. Positions of a square are shared out to the patches of any size. A resampler's
queries look at a view's patches, whose keys know their row and column by sines and cosines.
"""

from dataclasses import dataclass
from math import isqrt, sqrt
from typing import Annotated

import numpy as np

from engine.errors import ShapeError
from engine.gguf.formats import F32
from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.images import layouts
from engine.images.patches import Floats, cut
from engine.images.plan import ImagePlan, Limits, Size
from engine.images.tiles import MOST_ASPECT
from engine.layers.linear import Linear
from engine.layers.vision.blocks import Block, BlockSpec, LayerNorm, Patches, side_of
from engine.layers.vision.tower import TowerPass, TowerStep, bucket_of
from engine.models.vision.base import SIDE, Tower, TowerParams
from engine.weights.bind import Name
from engine.weights.params import Meta, Range

HEAD = 128
"""Channels of a resampler's head."""
WAVES = 1e4
WRAPPING = 2
"""The version of MiniCPM-V 2.5, which marks slices in another way."""


@dataclass(frozen=True, kw_only=True)
class Params(TowerParams):
    """Hyperparameters by their GGUF keys; `image_size` is the side of a slice."""

    image_size: Annotated[int, Meta("vision.image_size", SIDE)] = 448
    version: Annotated[int, Meta("minicpmv_version", Range(0, 1 << 20))] = WRAPPING

    def problem(self) -> str:
        """A contradiction among the parameters, or ""."""
        if self.version == 1 and not super().problem():
            return "minicpmv_version is 1: the tower of MiniCPM-V 2.0 is another one, not read here"
        return super().problem()


@dataclass(frozen=True)
class Resampler:
    """Queries [E, R] and the one block of attention by which they look at patches."""

    query: Annotated[Tensor, Name("query")]
    kv: Annotated[Linear, Name("kv")]
    query_norm: Annotated[LayerNorm, Name("ln_q")]
    kv_norm: Annotated[LayerNorm, Name("ln_kv")]
    q: Annotated[Linear, Name("attn.q")]
    k: Annotated[Linear, Name("attn.k")]
    v: Annotated[Linear, Name("attn.v")]
    out: Annotated[Linear, Name("attn.out")]
    post_norm: Annotated[LayerNorm, Name("ln_post")]
    proj: Annotated[Linear, Name("proj")]

    def __call__(self, x: Tensor, p: TowerPass, eps: float) -> Tensor:
        """Patches x [D, n] -> rows [E, R]."""
        (size, count), n = self.query.shape[:2], x.shape[1]
        if size % HEAD or size % 4:
            raise ShapeError(self.query.name, f"heads have {HEAD} channels", self.query.shape)
        x = self.kv_norm(self.kv(x, "v/mm_kv"), eps, "v/mm_kv_norm")
        query = self.query_norm(ops.cast(self.query, F32), eps, "v/mm_query_norm")
        keys = ops.add(x, p.floats("places", size, n)).named("v/mm_keys")
        heads = size // HEAD
        q = self.q(query, "v/mm_q").reshape(HEAD, heads, count)
        k = self.k(keys, "v/mm_k").reshape(HEAD, heads, n)
        v = self.v(x, "v/mm_v").reshape(HEAD, heads, n)
        mixed = p.look(q, k, v, 1 / sqrt(HEAD)).named("v/mm_kqv_out")
        rows = self.post_norm(self.out(mixed, "v/mm_attn_out"), eps, "v/mm_post_norm")
        return self.proj(rows, "v/mm_proj")


@dataclass(frozen=True)
class Weights:
    """The tower's and the resampler's tensors; positions [E, N] of a square."""

    patches: Annotated[Patches, Name("v.patch_embd")]
    positions: Annotated[Tensor, Name("v.position_embd.weight")]
    blocks: Annotated[list[Block], Name("v.blk")]
    post_norm: Annotated[LayerNorm, Name("v.post_ln")]
    resampler: Annotated[Resampler, Name("resampler")]


class Model(Tower[Params, Weights]):
    """Plans have buckets of patches; each view has as many rows as there are queries."""

    projectors = ("resampler",)
    hosts = ("llama", "qwen2", "qwen3")
    tokens = ("<image>", "</image>", "<slice>", "</slice>")
    markers = ("(<image>./</image>)",)
    glue = "\n"
    ignored = ("resampler.pos_embed",)
    filter = "bicubic"

    def plan(self, size: Size, limits: Limits) -> ImagePlan:
        params = self.params
        return layouts.minicpmv(
            *(size, limits),
            edge=params.image_size,
            unit=params.patch,
            queries=self.queries,
            is_counted=self.host.has_token("<image_id>"),
            wraps=params.version == WRAPPING,
        )

    @property
    def queries(self) -> int:
        """Rows of a view."""
        return self.weights.resampler.query.shape[1]

    def inputs(self, pixels: Floats, plan: ImagePlan, view: int) -> TowerStep:
        patch, table = self.params.patch, self.weights.positions
        rows, cols = pixels.shape[0] // patch, pixels.shape[1] // patch
        side = side_of(table)
        y, x = np.divmod(np.arange(rows * cols, dtype=np.int32), np.int32(cols))
        inputs = {
            "patches": cut(pixels, patch),
            "positions": (side * y // rows * side + side * x // cols).astype(np.int32),
            "places": waves(x, y, self.weights.resampler.query.shape[0]),
        }
        return TowerStep(rows * cols, self.queries, inputs)

    def forward(self, p: TowerPass) -> Tensor:
        params, w = self.params, self.weights
        spec = BlockSpec(params.n_head, params.head_dim, params.eps, ops.gelu)
        side_of(w.positions)
        positions = ops.rows(w.positions, p.ints("positions", p.n))
        x = ops.add(w.patches(p, params.patch), positions).named("v/pos_embed")
        for i, block in enumerate(w.blocks):
            x = block(x, i, p, spec)
        return w.resampler(w.post_norm(x, params.eps, "v/post_ln"), p, params.eps)

    def bucket(self, n: int) -> int:
        return bucket_of(n, 1)

    def worst(self, limits: Limits) -> int:
        # Sides are rounded, and that of a long view is at least a patch; slices of a picture are
        # about as long as it is, or shorter.
        side = -(-self.params.image_size // self.params.patch)
        return self.bucket(side**2 + side * (isqrt(2 * MOST_ASPECT) + 2) + 2)


def waves(x: np.ndarray, y: np.ndarray, size: int) -> Floats:
    """f32 [n, size]: sines and cosines of columns, then of rows; a quarter of the channels each."""
    quarter = size // 4
    frequencies = WAVES ** (-np.arange(quarter) / quarter)
    angles = np.outer(x, frequencies), np.outer(y, frequencies)
    parts = [turn(angle) for angle in angles for turn in (np.sin, np.cos)]
    return np.concatenate(parts, axis=1).astype(np.float32)
