"""Measurements of what a quantisation loses. Logarithms are natural."""

from typing import ClassVar

import msgspec

from engine.protocol.message import Reply, Request, StageName
from engine.settings import EngineOptions


class Estimate(msgspec.Struct, frozen=True):
    """A value with its standard error."""

    value: float
    error: float


class QualityEstimates(msgspec.Struct, frozen=True):
    """How a model's predictions differ from the base's, over `n` positions.

    `ln_ratio` is ln of the ratio of perplexities, `kld` the mean KL divergence from the base in
    nats, `same_top` the share of positions with the same likeliest token, `dp` the difference of
    the probabilities of the text's token, `dp_rms` its root mean square. Percentiles are by their
    names: 99.9, 50.
    """

    n: int
    ppl: Estimate
    ppl_base: Estimate
    ln_ratio: Estimate
    ratio: Estimate
    kld: Estimate
    kld_max: float
    kld_percentiles: dict[str, float]
    same_top: Estimate
    dp: Estimate
    dp_rms: Estimate
    dp_percentiles: dict[str, float]


class LayerDrift(msgspec.Struct, frozen=True):
    """How far what leaves a layer is from the base's: NMSE and cosine over all tokens, and
    without the first four of each chunk (`later_`).
    """

    layer: int
    nmse: float
    cosine: float
    later_nmse: float
    later_cosine: float


class TensorLoss(msgspec.Struct, frozen=True):
    """A tensor of another type than the base's: `size` is in bytes. `nmse` is of its weights,
    `output_nmse` of its product with the text's activations to first order. `alone` is the mean
    KL divergence of the base with this tensor, `without` that with all others but this; None where
    it was not computed. `saved` is what the KL divergence of all falls by for each MiB more, if
    this one is kept as Q8_0.
    """

    name: str
    type: str
    size: int
    nmse: float
    output_nmse: float
    alone: float | None = None
    without: float | None = None
    saved: float | None = None


class TensorSwap(msgspec.Struct, frozen=True):
    """Tensors whose whole name the regular expression matches, in the format `type`; empty: as in
    the compared file.
    """

    pattern: str
    type: str = ""


class QualityMeasured(Reply, frozen=True):
    """`tensors` are those that were searched or swapped, the worst first. `all_kld` is the mean KL
    divergence with all of them in a search. `in_turn` if only one model was open at a time.
    `memory` is how many bytes estimating took at most, by the plans of both models; 0 of swaps.
    `name` and `base_name` are equal for swaps, and for files with the same name.
    """

    name: str
    base_name: str
    device: str
    n_chunks: int
    n_ctx: int
    in_turn: bool
    estimates: QualityEstimates | None
    drift: list[LayerDrift]
    tensors: list[TensorLoss]
    all_kld: float | None = None
    memory: int = 0

    @property
    def n_swapped(self) -> int:
        """How many tensors of the base were swapped; 0 if two files were compared."""
        return len(self.tensors) if self.name == self.base_name and self.all_kld is None else 0


class MeasureQuality(Request[QualityMeasured], frozen=True):
    """Compare a model's predictions for a text with those of a base: of the file `path`, or of the
    base with some tensors swapped. The model that is open is closed first, and none is open after.

    Chunks are those of `Perplexity`, at most `n_chunks`. `in_turn` says whether only one model is
    open at a time (None: if both do not fit). `like_llama` keeps the base's log-probabilities in
    16 bits. `guilty` is how many tensors, the worst to first order, are tried exactly (-1: all).
    """

    stage: ClassVar[StageName] = "load"

    base: str
    options: EngineOptions
    text: str
    path: str = ""
    n_ctx: int = 512
    n_chunks: int | None = None
    in_turn: bool | None = None
    like_llama: bool = False
    drift: bool = False
    guilty: int = 0
    swaps: list[TensorSwap] = []
