"""Activation patching: which results of one prompt make the answer of another."""

from typing import ClassVar, Literal

import msgspec

from engine.protocol.inside.compare import ComparedText
from engine.protocol.message import Reply, Request, StageName

PatchGrid = Literal["residual", "parts", "heads", "experts"]
PatchMetric = Literal["logit-diff", "prob", "logprob", "kl"]


class PatchTable(msgspec.Struct, frozen=True):
    """Effects of one site: `values` f32 [layers, columns] is the metric with the patch, `effects`
    normalised: 0 changes nothing, 1 restores the source's answer. NaN where nothing was computed.
    """

    site: str
    values: bytes
    effects: bytes


class PatchesMapped(Reply, frozen=True):
    """A map of patches. `start` and `source` are the metric in the run that is patched and in the
    one patched from; `tokens` are those of the run that is patched, `source_tokens` of the other.
    `columns` are positions of the first, heads or experts. `pairs` are the positions that belong
    together. `right` and `wrong` are tokens' ids with their texts. `notes` say what was left out;
    a cancelled map is not `complete`.
    """

    name: str
    device: str
    grid: PatchGrid
    direction: Literal["denoising", "noising"]
    metric: PatchMetric
    tokens: list[str]
    source_tokens: list[str]
    right: tuple[int, str]
    wrong: tuple[int, str]
    source: float
    start: float
    layers: list[int]
    columns: list[int]
    tables: list[PatchTable]
    pairs: list[tuple[int, int]]
    notes: list[str]
    complete: bool = True


class MapPatches(Request[PatchesMapped], frozen=True):
    """Patch results of one prompt's run into another's, one at a time, and measure the answer.

    Denoising patches the corrupt run with results of the clean one, `noising` the reverse. `right`
    and `wrong` are texts of one token or ids, by default the likeliest after the clean prompt and
    the likeliest other one after the corrupt prompt. Grids: `residual` (what leaves a layer) and
    `parts` (attention, feed-forward) by layer and position, `heads` and `experts` by layer at all
    positions, or at `position`.

    With `noise` the corrupt run is the clean one with normal noise added to the embeddings of the
    `subject` (a part of the prompt, by default all but the first token), of so many of their
    standard deviations; the map is the mean over as many `seeds`.
    """

    stage: ClassVar[StageName] = "prefill"
    in_parts: ClassVar[bool] = True

    clean: ComparedText
    corrupt: ComparedText
    right: str | int = ""
    wrong: str | int = ""
    grid: PatchGrid = "residual"
    metric: PatchMetric = "logit-diff"
    noising: bool = False
    position: int | None = None
    noise: float = 0.0
    subject: str = ""
    seeds: int = 10
