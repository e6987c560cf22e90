"""Blocks of vision towers (Dosovitskiy et al. 2021) and what stands around them.

Names on fields are those of an mmproj; the alternatives are those of single files. Names of nodes
are llama.cpp's behind "v/", so that block 3 of a tower and layer 3 of the text are not confused.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt, sqrt
from typing import Annotated

from engine.errors import ShapeError
from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.linear import Linear, RMSNorm
from engine.layers.vision.tower import EVERYTHING, TowerPass
from engine.weights.bind import Name

Activation = Callable[[Tensor, Tensor | None], Tensor]
Projected = tuple[Tensor, Tensor, Tensor]

LN1 = Name("ln1", alt=("layer_norm1", "attn_norm", "norm1"))
LN2 = Name("ln2", alt=("layer_norm2", "ffn_norm", "norm2", "attn_post_norm"))
UP = Name("ffn_up", alt=("mlp.fc1", "mlp.linear_fc1"))
DOWN = Name("ffn_down", alt=("mlp.fc2", "mlp.linear_fc2"))


@dataclass(frozen=True)
class BlockSpec:
    """The numbers of a tower's blocks; `eps` belongs to its norms.

    `pairs` says how queries and keys are turned by the table of the input `rope`: "neox" (i with
    i + D/2) or "adjacent" (2i with 2i + 1); None: not at all.
    """

    n_head: int
    head_dim: int
    eps: float
    activation: Activation
    pairs: str | None = None


@dataclass(frozen=True)
class LayerNorm(RMSNorm):
    """weight [E] and bias [E] (Ba, Kiros & Hinton 2016)."""

    bias: Annotated[Tensor, Name("bias")]

    def __call__(self, x: Tensor, eps: float, name: str, layer: int | None = None) -> Tensor:
        return ops.layer_norm(x, self.weight, self.bias, eps).named(name, layer)


@dataclass(frozen=True)
class Separate:
    """Queries, keys and values by a matrix each."""

    q: Annotated[Linear, Name("attn_q")]
    k: Annotated[Linear, Name("attn_k")]
    v: Annotated[Linear, Name("attn_v")]

    def __call__(self, x: Tensor, i: int, spec: BlockSpec) -> Projected:
        """x [E, T] -> [D*H, T] each."""
        return self.q(x, "v/Qcur", i), self.k(x, "v/Kcur", i), self.v(x, "v/Vcur", i)


@dataclass(frozen=True)
class Joint:
    """Queries, keys and values by one matrix, one below the other."""

    qkv: Annotated[Linear, Name("attn_qkv")]

    def __call__(self, x: Tensor, i: int, spec: BlockSpec) -> Projected:
        """x [E, T] -> [D*H, T] each."""
        size = spec.n_head * spec.head_dim
        q, k, v = ops.chunk_sections(self.qkv(x, "v/qkv", i), 0, (size, size, size))
        return (
            ops.contiguous(q).named("v/Qcur", i),
            ops.contiguous(k).named("v/Kcur", i),
            ops.contiguous(v).named("v/Vcur", i),
        )


@dataclass(frozen=True)
class Attention:
    """Attention among all that a pass has."""

    project: Separate | Joint
    out: Annotated[Linear, Name("attn_out", alt="attn_output")]

    def __call__(self, x: Tensor, i: int, p: TowerPass, spec: BlockSpec, sight: str) -> Tensor:
        """x [E, T] -> [E, T]."""
        shape = (spec.head_dim, spec.n_head, x.shape[1])
        q, k, v = self.project(x, i, spec)
        q, k = self.normed(q, k, i, spec)
        q, k = q.reshape(*shape), k.reshape(*shape)
        if spec.pairs is not None:
            table = p.floats("rope", spec.head_dim, x.shape[1])
            q = ops.rope(q, table, spec.pairs == "neox").named("v/Qcur_rope", i)
            k = ops.rope(k, table, spec.pairs == "neox").named("v/Kcur_rope", i)
        mixed = p.attend(q, k, v.reshape(*shape), 1 / sqrt(spec.head_dim), sight)
        return self.out(mixed.named("v/kqv_out", i), "v/attn_out", i)

    def normed(self, q: Tensor, k: Tensor, i: int, spec: BlockSpec) -> tuple[Tensor, Tensor]:
        """q and k [D*H, T] before they are turned; here as they are."""
        return q, k


@dataclass(frozen=True)
class MLP:
    """down(act(up(x)))."""

    up: Annotated[Linear, UP]
    down: Annotated[Linear, DOWN]

    def __call__(self, x: Tensor, i: int, activation: Activation) -> Tensor:
        """x [E, T] -> [E, T]."""
        return self.down(self.mixed(x, i, activation), "v/ffn_out", i)

    def mixed(self, x: Tensor, i: int, activation: Activation) -> Tensor:
        """x [E, T] -> [F, T]."""
        return activation(self.up(x, "v/ffn_up", i), None).named("v/ffn_act", i)


@dataclass(frozen=True)
class GatedMLP(MLP):
    """down(act(gate(x)) * up(x)) (Shazeer 2020)."""

    gate: Annotated[Linear, Name("ffn_gate")]

    def mixed(self, x: Tensor, i: int, activation: Activation) -> Tensor:
        """x [E, T] -> [F, T]."""
        gate, up = self.gate(x, "v/ffn_gate", i), self.up(x, "v/ffn_up", i)
        return activation(gate, up).named("v/ffn_act", i)


@dataclass(frozen=True)
class RMSBlock:
    """x += A(norm x); x += F(norm x), the norms by root mean square (Pixtral, Qwen 2.5)."""

    ln1: Annotated[RMSNorm, LN1]
    attn: Attention
    ln2: Annotated[RMSNorm, LN2]
    ffn: MLP

    def __call__(
        self, x: Tensor, i: int, p: TowerPass, spec: BlockSpec, sight: str = EVERYTHING
    ) -> Tensor:
        """x [E, T] -> [E, T] in block i; `sight` says who sees whom (tower.py)."""
        h = self.ln1(x, spec.eps, "v/layer_inp_normed", i)
        h = self.scaled(self.attn(h, i, p, spec, sight), first=True)
        x = ops.add(h, x).named("v/ffn_inp", i)
        h = self.ln2(x, spec.eps, "v/ffn_inp_normed", i)
        h = self.scaled(self.ffn(h, i, spec.activation), first=False)
        return p.pause(ops.add(h, x).named("v/layer_out", i))

    def scaled(self, h: Tensor, first: bool) -> Tensor:
        """Scale the contribution of attention (`first`) or feed-forward [E, T]; unchanged by
        default.
        """
        return h


@dataclass(frozen=True)
class GatedBlock(RMSBlock):
    """A gated block, for Pixtral and Qwen 2.5."""

    ffn: GatedMLP


@dataclass(frozen=True)
class Block(RMSBlock):
    """With layer norms, as most towers have it."""

    ln1: Annotated[LayerNorm, LN1]
    ln2: Annotated[LayerNorm, LN2]


@dataclass(frozen=True)
class Patches:
    """The embedding of patches: weight [P, P, 3, E], read as [3*P*P, E]; bias [E] or none."""

    weight: Annotated[Tensor, Name("weight")]
    bias: Annotated[Tensor | None, Name("bias")]

    def __call__(self, p: TowerPass, size: int) -> Tensor:
        """The input `patches` [3*P*P, n], channel by channel and row by row -> [E, n]."""
        kernel = matrix(self.weight, size)
        return Linear(kernel, self.bias, None)(p.floats("patches", kernel.shape[0], p.n), "v/inp")


@dataclass(frozen=True)
class Positions:
    """weight [E, N]: a learned row for each place, those of classes included."""

    weight: Annotated[Tensor, Name("weight")]

    def __call__(self, p: TowerPass, classes: int = 0) -> Tensor:
        """Like `placed`."""
        return placed(self.weight, p, classes)


def placed(table: Tensor, p: TowerPass, classes: int = 0) -> Tensor:
    """The rows of `table` [E, N] that the input `positions` chooses; N is n and the classes."""
    n = p.n + classes
    check_places(table, n)
    return ops.rows(table, p.ints("positions", n)).named("v/pos_embed")


def check_places(table: Tensor, n: int) -> None:
    """Raises `ShapeError` unless the table [E, N] has a row for each of n places."""
    if table.shape[1:] != (n, 1, 1):
        raise ShapeError(table.name, f"there are {n} places", table.shape)


def side_of(table: Tensor) -> int:
    """Places along a side of a square whose table is [E, N]. Raises `ShapeError` if it is none."""
    side = isqrt(table.shape[1])
    if side**2 != table.shape[1]:
        raise ShapeError(table.name, "the number of places is not a square", table.shape)
    return side


def matrix(kernel: Tensor, size: int) -> Tensor:
    """A convolution's kernel [P, P, 3, E] whose step is its `size` P, as the matrix [3*P*P, E]; or
    what is stored as that matrix.
    """
    w, h, channels, out = kernel.shape
    if (w, channels, out) == (3 * size * size, 1, 1):
        return kernel
    if (w, h, channels) != (size, size, 3):
        raise ShapeError(kernel.name, f"patches are {size} x {size} in 3 colours", kernel.shape)
    return kernel.reshape(3 * size * size, out)


def merged(x: Tensor, cells: int) -> Tensor:
    """Runs of `cells` neighbours side by side: [E, n] -> [E * cells, n / cells]."""
    return x.reshape(x.shape[0] * cells, x.shape[1] // cells)


def by_channel(x: Tensor, cells: int) -> Tensor:
    """Runs of `cells` neighbours, channel by channel: [E, n] -> [cells, E, n / cells]."""
    runs = x.reshape(x.shape[0], cells, x.shape[1] // cells)
    return ops.contiguous(runs.permute(1, 0, 2))


def joined(x: Tensor, kernel: Tensor, bias: Tensor, merge: int) -> Tensor:
    """Runs of M x M patches [E, n] by a convolution [M, M, E, E'] whose step is its size:
    [E', n / M^2].
    """
    (size, n), cells = x.shape[:2], merge**2
    if kernel.shape[:3] != (merge, merge, size):
        problem = f"{merge} x {merge} patches of {size} are joined"
        raise ShapeError(kernel.name, problem, kernel.shape)
    runs = by_channel(x, cells).reshape(cells * size, n // cells)
    x = ops.matmul(kernel.reshape(cells * size, kernel.shape[3]), runs)
    return ops.add(x, bias).named("v/mm_merged")


def pooled(x: Tensor, cells: int) -> Tensor:
    """The mean of runs of `cells` neighbours: [E, n] -> [E, n / cells]."""
    return ops.mean(by_channel(x, cells)).reshape(x.shape[0], x.shape[1] // cells)
