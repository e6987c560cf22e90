"""The logit lens: the model's last norm and output applied to every layer's result.

The logit lens (nostalgebraist 2020). The last layer's row is the model's own answer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.arrays.lens_file import LensFile
from engine.errors import NotSupported
from engine.gguf.formats import F32
from engine.graph.graph import Graph
from engine.graph.tensor import Role, Tensor, leaf
from engine.models.build import BuiltModel
from engine.models.decoder import Decoder
from engine.protocol import Lens
from engine.runner.batch import bucket_of
from engine.runner.stepper import Logits, Stepper
from engine.sampling.cuts import top_k
from engine.sampling.sampler import BadLogits

_PART = 1 << 14  # logits that stay in a core's own cache
Rows = NDArray[np.float32]


def lens(
    stepper: Stepper,
    residuals: Mapping[int, Rows],
    logits: Logits,
    k: int,
    wanted: int | None,
    shown: Callable[[int], str],
    through: LensFile | None = None,
) -> Lens:
    """`residuals` [E] are what layers before the last leave of a token, by the layer's number;
    `logits` [V] are the model's own. Without a `wanted` token it is the most likely one. With a
    file only the layers that it has are read.

    Raises `NotSupported` for a model whose output cannot be applied to other layers, `BadFile` for
    a lens of another model.
    """
    layers = sorted(residuals)
    if through is None:
        columns = [residuals[i] for i in layers]
    else:
        _check(stepper.built, through)
        layers = [i for i in layers if i in through.layers]
        columns = [through.apply(i, residuals[i]) for i in layers]
    every = [*(lens_logits(stepper, np.stack(columns)) if columns else ()), logits]
    token = int(np.argmax(logits)) if wanted is None else wanted
    rows = [read_row(row, min(k, row.size), token) for row in every]
    ids = np.stack([row.ids for row in rows])
    return Lens(
        [*layers, stepper.built.n_layer - 1],
        ids.astype("<i4").tobytes(),
        np.stack([row.logp for row in rows]).astype("<f4").tobytes(),
        token,
        np.array([row.rank for row in rows], "<i4").tobytes(),
        np.array([row.wanted for row in rows], "<f4").tobytes(),
        np.array([row.entropy for row in rows], "<f4").tobytes(),
        {i: shown(i) for i in {*ids.reshape(-1).tolist(), token}},
        "logit" if through is None else through.kind,
        0 if through is None else through.n_prompts,
    )


def _check(built: BuiltModel, through: LensFile) -> None:
    """Raise `BadFile` for a lens of another model."""
    if not isinstance(built.model, Decoder):
        raise NotSupported(f"a lens of {built.arch}")
    through.check(built.model.params.n_embd, built.n_layer)


def lens_logits(stepper: Stepper, rows: Rows) -> Logits:
    """Logits [L, V] of results [L, E] of layers, on the devices that hold the norm and the output.

    All in one product where the arenas have room for it, else in as few as do: no memory is taken,
    and no plan is dropped. Raises `NotSupported`.
    """
    n = bucket_of(len(rows))
    while n > 1 and not stepper.planner.has_room(_graph(stepper.built, n)[1]):
        n = -(-n // 2)
    plan, input_leaf = stepper.planner.plan_with(("lens", n), lambda: _graph(stepper.built, n))
    parts = []
    for start in range(0, len(rows), n):
        part = rows[start : start + n]
        padded = np.zeros((n, rows.shape[1]), np.float32)
        padded[: len(part)] = part
        (logits,) = plan.run({input_leaf: padded})
        parts.append(logits.reshape(n, -1)[: len(part)])
    return np.concatenate(parts).astype(np.float32, copy=False)


def _graph(built: BuiltModel, n: int) -> tuple[Tensor, Graph]:
    model = built.model
    if not isinstance(model, Decoder):
        raise NotSupported(f"the logit lens of {built.arch}")
    x = leaf("inp_layers", F32, (model.params.n_embd, n), Role.INPUT)
    return x, Graph.of([model.logits(model.normed(x))])


@dataclass(frozen=True)
class LensRow:
    """Prediction of one layer: its k most likely tokens, and of the wanted one its rank, from 1,
    and log-probability; entropy in nats.
    """

    ids: NDArray[np.int64]
    logp: NDArray[np.float64]
    rank: int
    wanted: float
    entropy: float


def read_row(logits: Logits, k: int, token: int) -> LensRow:
    """Exponentials are of float32, sums of float64. Of equal logits the lower id comes first, as
    where tokens are drawn. Raises `BadLogits`.
    """
    top = logits.max()
    if not np.isfinite(top):
        raise BadLogits
    total = mean = 0.0
    for start in range(0, logits.size, _PART):
        below = logits[start : start + _PART] - top
        weights = np.exp(below)
        total += float(weights.sum(dtype=np.float64))
        below[weights == 0] = 0  # it may be infinite
        mean += float((below * weights).sum(dtype=np.float64))
    at = logits[token]
    before = np.count_nonzero(logits > at) + np.count_nonzero(logits[:token] == at)
    best, log_total = top_k(logits, k), np.log(total)
    logp = best.logits - float(top) - log_total
    wanted = float(at) - float(top) - float(log_total)
    return LensRow(best.ids, logp, int(before) + 1, wanted, float(log_total - mean / total))
