"""What one token's step holds, in float64 NumPy, from results that were copied out by their names.

Nothing here is shared with `engine.inside` but the copies of named results.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import gguf
import numpy as np

from engine.gguf.formats import Q4_0, Q8_0
from engine.inside.token.examine import examine
from engine.protocol import Examine, Examined
from engine.runner.api import Model
from engine.runner.pictures.items import Item
from engine.runner.sequence import Sequenced
from engine.scheduler.probes import Probes

NAMES = ("l_out-.*", "Qcur.*", "kqv_out-.*")
KINDS = {Q8_0: gguf.GGMLQuantizationType.Q8_0, Q4_0: gguf.GGMLQuantizationType.Q4_0}


def never() -> bool:
    return False


def compute(sequence: Sequenced, items: list[Item]) -> np.ndarray:
    """The logits behind the items, of which what is cached is reused."""
    steps = sequence.prefill(items[sequence.reuse(items) :], never)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return np.array(end.value)


def look(model: Model, conversation: Sequenced, request: Examine) -> Examined:
    *_, found = examine(model.loaded, conversation, request, never)
    assert isinstance(found, Examined)
    return found


@dataclass
class Told:
    """The results of the last token's step by name: of those that have several, the last."""

    model: Model
    logits: np.ndarray
    values: dict[str, np.ndarray]

    @property
    def n_layer(self) -> int:
        return self.model.loaded.built.n_layer

    def query(self, layer: int) -> np.ndarray:
        """[H, D] as it is before a cache of blocks turns it: the last of that name has turned."""
        found = self.values[f"Qcur-{layer}"]
        return found.reshape(found.shape[-2:]).astype(np.float64)

    def kept(self, part: str, layer: int, sequence: int = 0) -> dict[int, np.ndarray]:
        """Keys or values [K, D] of every cell of a sequence, by position."""
        loaded = self.model.loaded
        kept = loaded.built.layers[layer]
        leaf = getattr(kept, part)
        at = loaded.stepper.planner.placed[leaf]
        raw = at.buffer.read(at.offset, leaf.nbytes).reshape(leaf.shape[1], -1)
        if leaf.fmt in KINDS:
            rows = gguf.quants.dequantize(raw, KINDS[leaf.fmt])
        else:
            rows = raw.view(leaf.fmt.dtype)
        rows = rows.astype(np.float64).reshape(len(rows), kept.heads, -1)
        if leaf.fmt is Q4_0:  # turned by blocks: a rotation that is its own inverse
            h = _hadamard(
                min(rows.shape[-1] & -rows.shape[-1], 64 if rows.shape[-1] <= 128 else 32)
            )
            rows = (rows.reshape(*rows.shape[:2], -1, len(h)) @ h).reshape(rows.shape)
        cells = loaded.built.caches.caches[kept.cache].cells
        held = np.flatnonzero(cells[:, 0] & (1 << sequence))
        return {int(cells[i, 1]): rows[i] for i in held}


def told(
    model: Model, sequence: Sequenced, items: list[Item], names: tuple[str, ...] = NAMES
) -> Told:
    """The step of the last item, with its results copied out; the conversation ends with it."""
    compute(sequence, items[:-1])
    extras = sequence.extras(items[-1:], never)
    try:
        while True:
            next(extras)
    except StopIteration as end:
        given = end.value
    step = sequence.begin(items[-1:], given, probes=Probes(names))
    logits = step()
    values = {one.key.name: one.values for one in step.probed()}
    return Told(model, logits, values)


def said(model: Model, residuals: list[np.ndarray], ids: np.ndarray | None = None) -> np.ndarray:
    """The model's last norm and output on results [E] of layers: logits [L, V], or of some ids."""
    loaded = model.loaded
    x = np.stack([one.reshape(-1) for one in residuals]).astype(np.float64)
    params = loaded.built.model.params
    x = x / np.sqrt((x * x).mean(1, keepdims=True) + params.eps)
    x *= model.tensor("output_norm.weight")
    tied = "output.weight" not in loaded.file.tensors
    name = "token_embd.weight" if tied else "output.weight"
    blocks = loaded.file.data(name).reshape(loaded.file.tensors[name].shape[1], -1)
    kind = gguf.GGMLQuantizationType(loaded.file.tensors[name].fmt.id)
    wanted = blocks if ids is None else blocks[ids]
    parts = (gguf.quants.dequantize(part, kind) for part in np.array_split(wanted, 16))
    logits = np.concatenate([x @ part.astype(np.float64).T for part in parts], 1)
    cap = getattr(params, "softcap", 0.0)
    return cap * np.tanh(logits / cap) if cap else logits


def attention(
    found: Told, layer: int, position: int, scale: float, slopes: Sequence[float] = (0.0,)
) -> np.ndarray:
    """[H, position + 1] of a layer that sees all, or its window; scores fall by slopes [H]."""
    kept = found.model.loaded.built.layers[layer]
    window = found.model.loaded.built.caches.caches[kept.cache].window
    keys, q = found.kept("k", layer), found.query(layer)
    first = 0 if window is None else max(0, position - window + 1)
    scores = np.full((len(q), position + 1), -np.inf)
    for p in range(first, position + 1):
        heads = np.repeat(keys[p], len(q) // len(keys[p]), axis=0)
        scores[:, p] = (q * heads).sum(-1) * scale - np.array(slopes) * (position - p)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    top = logits.max()
    return logits - top - np.log(np.exp(logits - top).sum())


def layers_of(names: dict[str, np.ndarray]) -> list[int]:
    """Those that have a result."""
    return sorted(int(m[1]) for name in names if (m := re.fullmatch(r"l_out-(\d+)", name)))


def _hadamard(size: int) -> np.ndarray:
    h = np.ones((1, 1))
    while len(h) < size:
        h = np.block([[h, h], [h, -h]])
    return h / np.sqrt(size)
