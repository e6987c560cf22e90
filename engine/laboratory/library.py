"""The laboratory from Python."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.laboratory.features import find_features
from engine.laboratory.patch import map_patches
from engine.laboratory.quality import measure_quality
from engine.laboratory.record import record
from engine.progress import finished
from engine.protocol import (
    ComparedText,
    DatasetRecorded,
    FeaturesFound,
    FindFeatures,
    MapPatches,
    MeasureQuality,
    PatchesMapped,
    QualityMeasured,
    RecordDataset,
    RecordKind,
    TensorSwap,
)
from engine.runner.api import Model
from engine.settings import EngineOptions


def quality(
    base: str | Path,
    text: str,
    path: str | Path = "",
    *,
    what_if: dict[str, str] | None = None,
    ctx: int = 512,
    options: EngineOptions | None = None,
    **wanted: Any,
) -> QualityMeasured:
    """Measure what the file `path` loses against the base on a text, or the base with tensors
    swapped: `what_if` maps their names, regular expressions, to types. All else are fields of
    `engine.protocol.MeasureQuality`. Raises as `measure_quality`.
    """
    request = MeasureQuality(
        0,
        str(base),
        options or EngineOptions(),
        text,
        str(path) if path else "",
        ctx,
        swaps=[TensorSwap(*one) for one in (what_if or {}).items()],
        **wanted,
    )
    return measure_quality(request, lambda _: None, lambda: False)


def patch_map(model: Model, clean: str, corrupt: str, **wanted: Any) -> PatchesMapped:
    """Which results of one text's run make its answer, in the run of another: all else are fields
    of `engine.protocol.MapPatches`. Raises as `map_patches`.
    """
    request = MapPatches(0, ComparedText(prompt=clean), ComparedText(prompt=corrupt), **wanted)
    return finished(map_patches(model.loaded, model.conversation, request, lambda: False))


def record_texts(
    model: Model, paths: Sequence[str | Path], out: str | Path, *what: RecordKind, **wanted: Any
) -> DatasetRecorded:
    """Record numbers over texts into the folder `out`; all else are fields of
    `engine.protocol.RecordDataset`. Raises as `record`.
    """
    wanted.setdefault("n_ctx", min(512, model.loaded.built.n_ctx))
    request = RecordDataset(0, [str(path) for path in paths], str(out), list(what), **wanted)
    return finished(record(model.loaded, model.conversation, request, lambda: False))


def features(model: Model, sae: str | Path, text: str, **wanted: Any) -> FeaturesFound:
    """The strongest features of an autoencoder at each token of a text; all else are fields of
    `engine.protocol.FindFeatures`. Raises as `find_features`.
    """
    request = FindFeatures(0, str(sae), ComparedText(prompt=text), **wanted)
    return finished(find_features(model.loaded, model.conversation, request, lambda: False))
