"""Per-layer embeddings: each layer adds something of the token itself (Gemma 3n, Gemma 4)."""

from dataclasses import dataclass
from math import sqrt
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.linear import Embedding, Linear, RMSNorm
from engine.layers.step import Pass
from engine.weights.bind import Name


@dataclass(frozen=True)
class PerLayerInputs:
    """Per-layer inputs of tokens: a row of a table that only lookups read, of P for each layer,
    and as much of the embeddings.
    """

    table: Annotated[Embedding, Name("per_layer_token_embd", rows=True)]
    proj: Annotated[Linear, Name("per_layer_model_proj")]
    norm: Annotated[RMSNorm, Name("per_layer_proj_norm")]

    def __call__(self, x: Tensor, p: Pass, n_layer: int, eps: float) -> Tensor:
        """Embeddings x [E, T] as they enter the first layer -> [P, L, T]."""
        n_embd, n = x.shape[:2]
        rows = self.table(p.tokens_or(0)).named("inp_per_layer")
        shape = (rows.shape[0] // n_layer, n_layer, n)
        rows = ops.scale(rows, sqrt(shape[0])).reshape(*shape)
        made = ops.scale(self.proj(x, "per_layer_proj"), 1 / sqrt(n_embd)).reshape(*shape)
        both = ops.add(self.norm(made, eps, "per_layer_proj_norm"), rows)
        return ops.scale(both, 1 / sqrt(2)).named("inp_per_layer_scaled")


def of_layer(inputs: Tensor, i: int) -> Tensor:
    """Layer i's [P, T] of [P, L, T]."""
    size, _, n = inputs.shape[:3]
    return inputs.view(i * inputs.strides[1], (size, n), (inputs.strides[2],))


@dataclass(frozen=True)
class PerLayer:
    """norm(proj(gelu(gate x) * e)), e what the token gives this layer."""

    gate: Annotated[Linear, Name("inp_gate")]
    proj: Annotated[Linear, Name("proj")]
    norm: Annotated[RMSNorm, Name("post_norm")]

    def __call__(self, x: Tensor, e: Tensor, i: int, eps: float) -> Tensor:
        """x [E, T], e [P, T] -> [E, T] in layer i."""
        gated = ops.gelu(self.gate(x, "per_layer_gate", i), e).named("per_layer_gated", i)
        return self.norm(self.proj(gated, "per_layer_out", i), eps, "per_layer_normed", i)
