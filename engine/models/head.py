"""Heads of classifiers and rerankers: from a text's pooled row to a score for each label.

Tensors and keys as llama.cpp writes and computes them: `cls` (a matrix and tanh, as RoBERTa has
it; ModernBERT's GELU), `cls.norm`, `cls.output`. They are small: the host computes them.
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from engine.errors import BadFile
from engine.gguf import GGUFFile
from engine.gguf.metadata import Metadata
from engine.gguf.values import Array
from engine.models.base import TextParams
from engine.models.constants import Constant, Values, read_constants
from engine.weights.params import Range

MATRIX, BIAS, NORM = "cls.weight", "cls.bias", "cls.norm.weight"
OUT, OUT_BIAS = "cls.output.weight", "cls.output.bias"
LABELS, POOLING = "classifier.output_labels", "classifier.pooling_type"
FINITE = Range(-1e6, 1e6)
MOST_LABELS = 1 << 16
CHOOSING = ("qwen3", "qwen3vl")
"""Architectures whose head has rows of the output matrix, of tokens to choose between."""

_ERF = np.vectorize(math.erf, otypes=[float])


class Pooling(IntEnum):
    """`<architecture>.pooling_type`, as llama.cpp numbers it."""

    NONE = 0
    MEAN = 1
    CLS = 2
    LAST = 3
    RANK = 4


def pooling_of(metadata: Metadata, whole: bool, has_head: bool) -> Pooling:
    """The file's pooling. Where it names none, a file with a head ranks; of others, models whose
    tokens see a `whole` text take the mean, others the last token, which has seen all.
    """
    usual = Pooling.MEAN if whole else Pooling.LAST
    named = metadata.get(f"{metadata.architecture}.pooling_type", int, int(Pooling.NONE))
    known = {int(kind) for kind in Pooling}
    found = Pooling(named) if named in known else usual
    if found is not Pooling.NONE:
        return found
    return Pooling.RANK if has_head else usual


def gelu(x: Values) -> Values:
    """By erf, as the class of transformers has it; llama.cpp takes the approximation by tanh."""
    exact: Values = (0.5 * x * (1 + _ERF(x.astype(np.float64) / math.sqrt(2)))).astype(np.float32)
    return exact


@dataclass(frozen=True)
class Head:
    """`pooling` makes the row that enters it. `labels` are the file's, none where it names none:
    then there is one score. With `chooses` scores are the softmax of the labels'.
    """

    labels: tuple[str, ...]
    pooling: Pooling
    tensors: Mapping[str, Values]
    activation: Callable[[Values], Values]
    eps: float
    chooses: bool

    @property
    def names(self) -> Collection[str]:
        """Its tensors' names in the file."""
        return self.tensors.keys()

    @property
    def ranks(self) -> bool:
        """True if its first score says how well texts fit, not which of several labels."""
        return self.chooses or len(self.labels) <= 1

    def scores(self, row: Values) -> Values:
        """f32 [labels] of a text's row f32 [E]."""
        found = self.tensors
        if MATRIX in found:
            row = self.activation(_linear(found[MATRIX], found.get(BIAS), row))
            if NORM in found:
                wide = row.astype(np.float64)
                wide -= wide.mean()
                wide /= np.sqrt(np.square(wide).mean() + self.eps)
                row = (wide * found[NORM]).astype(np.float32)
        if OUT in found:
            row = _linear(found[OUT], found.get(OUT_BIAS), row)
        if self.chooses:
            powers = np.exp(row.astype(np.float64) - row.max())
            row = (powers / powers.sum()).astype(np.float32)
        return row


def _linear(weight: Values, bias: Values | None, row: Values) -> Values:
    """[out] of a row [in]."""
    product: Values = weight @ row
    return product if bias is None else product + bias


def read_head(file: GGUFFile, params: TextParams, whole: bool) -> Head | None:
    """The file's head, None where it has none. Raises `BadFile` for tensors of another shape.

    Which row is pooled the file says; else it is the mean for ModernBERT, the first for models
    whose tokens see the `whole` text, the last for others.
    """
    if MATRIX not in file.tensors and OUT not in file.tensors:
        return None
    metadata, width = file.metadata, params.n_embd
    arch = metadata.architecture
    listed = metadata.get(f"{arch}.{LABELS}", Array, None)
    if listed is not None and len(listed) > MOST_LABELS:
        problem = f"{arch}.{LABELS} has {len(listed)} values; expected at most {MOST_LABELS}"
        raise BadFile(file.paths[0], f"metadata: {problem}")
    labels = tuple(metadata.each(f"{arch}.{LABELS}", str, len(listed))) if listed else ()
    count = len(labels) or 1
    inner = width if OUT in file.tensors else count
    wanted = [Constant(OUT, (width, count), FINITE), Constant(OUT_BIAS, (count,), FINITE)]
    if MATRIX in file.tensors:
        wanted.append(Constant(MATRIX, (width, inner), FINITE))
        wanted += [Constant(name, (inner,), FINITE) for name in (BIAS, NORM)]
    modern = arch == "modern-bert"
    first = Pooling.CLS if whole else Pooling.LAST
    usual = Pooling.MEAN if modern else first
    means = metadata.get(f"{arch}.{POOLING}", int, int(usual)) == Pooling.MEAN
    return Head(
        labels,
        Pooling.MEAN if means else first,
        read_constants(wanted, file),
        gelu if modern else np.tanh,
        params.eps,
        chooses=arch in CHOOSING and count > 1,
    )
