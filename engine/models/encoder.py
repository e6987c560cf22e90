"""Encoders: blocks in which each token sees the whole text; their rows are the result."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Generic, Protocol, TypeVar

from engine.graph.tensor import Tensor
from engine.layers.linear import Embedding, RMSNorm
from engine.models.base import Output
from engine.models.decoder import B, DecoderParams, LayerStack, LayerStackWeights
from engine.models.kept import Kept, Nothing
from engine.weights.bind import Name

P = TypeVar("P", bound=DecoderParams)
S = TypeVar("S", bound=LayerStackWeights)


class TextEncoder(LayerStack[P, S]):
    """Nothing is kept between steps: a text is one of them."""

    gives = frozenset({Output.EMBEDDINGS})
    whole = True

    def kept(self) -> Sequence[Kept]:
        return [Nothing()] * self.params.n_layer


class WithNorm(LayerStackWeights, Protocol):
    """And a norm of what the last block gives."""

    @property
    def norm(self) -> RMSNorm: ...


N = TypeVar("N", bound=WithNorm)


@dataclass(frozen=True)
class NormedWeights(Generic[B]):
    """Tensors of encoders like Llama."""

    embedding: Annotated[Embedding, Name("token_embd", rows=True)]
    blocks: Annotated[list[B], Name("blk")]
    norm: Annotated[RMSNorm, Name("output_norm", alt="enc.output_norm")]


class NormedEncoder(TextEncoder[P, N]):
    """Its rows are normalised."""

    def normed(self, x: Tensor) -> Tensor:
        return self.weights.norm(x, self.params.eps, "result_norm")
