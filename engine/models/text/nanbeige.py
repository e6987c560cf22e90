"""Nanbeige 4.2: Llama whose layers are passed several times, each pass with its keys and values.

Nanbeige Lab 2026; tensor names and keys by the GGUF spec. The last norm also stands between two
passes. Layers of the second pass on are counted on, and have no weights of their own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from engine.graph.tensor import Tensor
from engine.layers.step import LayerCache, Pass
from engine.models.kept import Kept
from engine.models.text import llama
from engine.models.text.llama import Weights
from engine.weights.params import Meta, Range

__all__ = ["Model", "Params", "Weights"]

MOST_LAYERS = 512


@dataclass(frozen=True, kw_only=True)
class Params(llama.Params):
    """Hyperparameters by their GGUF keys; `bare`: without a norm between two passes."""

    loops: Annotated[int, Meta("num_loops", Range(1, MOST_LAYERS))] = 1
    bare: Annotated[bool, Meta("skip_loop_final_norm", Range(0, 1))] = False

    def problem(self) -> str:
        """A contradiction among the parameters, or ""."""
        passed = self.n_layer * self.loops
        if passed > MOST_LAYERS:
            return f"num_loops {self.loops} makes {passed} layers of {self.n_layer}; at most 512"
        return super().problem()


class Model(llama.Model):
    params: Params

    def kept(self) -> Sequence[Kept]:
        return [*super().kept()] * self.params.loops

    def layer(self, x: Tensor, i: int, p: Pass, cache: LayerCache | None) -> Tensor:
        n, params = self.params.n_layer, self.params
        last = i == n * params.loops - 1
        x = self.weights.blocks[i % n](x, i, p, self.spec(i % n), cache, last)
        between = i % n == n - 1 and not last and not params.bare
        return self.weights.norm(x, params.eps, "loop_norm", i) if between else x
