"""Multi-token prediction: the block behind the last layer guesses one token more.

    e = enorm(embedding of the token at p + 1)    h = hnorm(the hidden state at p)
    h' = shared_head_norm(block(eh_proj [e; h]))    logits for the token at p + 2 = head h'

The hidden state is the last layer's after the output norm, and h' for each further guess
(DeepSeek-AI 2024, DeepSeek-V3, section 2.2; tensor names and keys by the GGUF spec).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Generic, get_args, get_origin

from engine.errors import TensorMismatch
from engine.gguf import TensorInfo
from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.linear import Embedding, Linear, RMSNorm
from engine.layers.step import LayerCache, Pass
from engine.models.base import Architecture, TextModel, TextParams, TextWeights
from engine.models.constants import Values
from engine.models.decoder import B, Decoder, DecoderParams, PlainWeights
from engine.models.kept import Kept, Nothing
from engine.weights.bind import Bound, Name, bind


@dataclass(frozen=True)
class PredictingBlock(Generic[B]):
    """A decoder's block with what is around it; an embedding, a norm and an output matrix that are
    missing are the model's.
    """

    block: B
    join: Annotated[Linear, Name("nextn.eh_proj")]
    embedded_norm: Annotated[RMSNorm, Name("nextn.enorm")]
    hidden_norm: Annotated[RMSNorm, Name("nextn.hnorm")]
    embedding: Annotated[Embedding | None, Name("nextn.embed_tokens", rows=True)]
    norm: Annotated[RMSNorm | None, Name("nextn.shared_head_norm")]
    output: Annotated[Linear | None, Name("nextn.shared_head_head")]


@dataclass(frozen=True)
class PredictingWeights(Generic[B]):
    """The block that predicts, as layer `n_layer`: of several the first."""

    predicting: Annotated[dict[int, PredictingBlock[B]], Name("blk")]

    @property
    def blocks(self) -> list[PredictingBlock[B]]:
        """It alone."""
        return list(self.predicting.values())


def bind_predicting(
    module: Architecture, tensors: Mapping[str, TensorInfo], arch: str, n_layer: int
) -> Bound[PredictingWeights[Any]] | None:
    """Bind the first block behind the last layer; None where there is none with all that makes it
    predict.
    """
    prefix = f"blk.{n_layer}."
    own = {name: info for name, info in tensors.items() if name.startswith(prefix)}
    kind: Any = module.Weights
    if not own or get_origin(kind) is None or not issubclass(get_origin(kind), PlainWeights):
        return None
    try:
        whole: Any = PredictingWeights
        return bind(whole[get_args(kind)[0]], own, arch, n_layer)
    except TensorMismatch:
        return None


class NextToken(TextModel[DecoderParams, PredictingWeights[Any]]):
    """The forward pass of that block: tokens at p + 1 and rows of hidden states at p enter."""

    def __init__(
        self,
        decoder: Decoder[DecoderParams, PlainWeights[Any]],
        weights: PredictingWeights[Any],
        index: int,
    ) -> None:
        """The block is layer `index` of the decoder."""
        super().__init__(decoder.params, weights, decoder.constants, decoder.n_ctx)
        self._decoder, self._index = decoder, index

    @classmethod
    def of(
        cls,
        module: Architecture,
        params: TextParams,
        trunk: TextWeights,
        weights: PredictingWeights[Any],
        constants: Mapping[str, Values],
        n_ctx: int,
    ) -> "NextToken | None":
        """The block behind a model's; None where the model is no decoder."""
        ((index, own),) = weights.predicting.items()
        blocks = [*trunk.blocks, own.block]
        decoder = module.Model(params, replace(trunk, blocks=blocks), constants, n_ctx)  # type: ignore[type-var]
        return cls(decoder, weights, index) if isinstance(decoder, Decoder) else None

    def kept(self) -> Sequence[Kept]:
        return [Nothing()] * self._index + [self._decoder.kept_by(self._index)]

    def hidden(self, p: Pass, caches: Sequence[LayerCache | None]) -> Tensor:
        i, eps = self._index, self.params.eps
        own, decoder = self.weights.predicting[i], self._decoder
        embedded = decoder.embed(p) if own.embedding is None else own.embedding(p.tokens)
        e = own.embedded_norm(embedded, eps, "mtp_enorm", i)
        h = own.hidden_norm(p.hidden(self.params.n_embd), eps, "mtp_hnorm", i)
        x = own.join(ops.concat(e, h, 0), "mtp_eh_proj", i)
        x = own.block(x, i, p, decoder.spec(i), caches[i], True)
        norm = decoder.weights.norm if own.norm is None else own.norm
        normed: Tensor = norm(x, eps, "mtp_norm", i)
        return normed

    def logits(self, x: Tensor) -> Tensor:
        head = self.weights.predicting[self._index].output
        if head is None:
            return self._decoder.logits(x)
        logits: Tensor = head(x, "result_output")
        return logits
