"""Features of a sparse autoencoder at each token of a text, with names."""

import gzip
import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.arrays.autoencoder import Autoencoder, Hook, open_autoencoder
from engine.errors import BadFile, BadSetting, Cancelled
from engine.inside.texts import text_pieces, text_tokens
from engine.inside.token.lens import lens_logits
from engine.laboratory.patch import PatchRuns
from engine.layers.edits import NONE
from engine.models.build import BuiltModel
from engine.models.decoder import Decoder
from engine.protocol import ActiveFeature, FeaturesFound, FindFeatures, Progress
from engine.runner.edits import edits_for
from engine.runner.loading import LoadedModel, name_of
from engine.runner.sequence import Sequenced

Floats = NDArray[np.float32]
MOST_TOP, MOST_TOKENS, AT_ONCE = 256, 4096, 64
PROMOTED, MOST_NAMED, MOST_LINE = 5, 512, 1 << 22
GOOD = 0.5
"""Explained variance below which an autoencoder is likely another model's."""
_BATCH = re.compile(r"batch-\d+\.jsonl(\.gz)?", re.ASCII)


def find_features(
    model: LoadedModel,
    sequence: Sequenced,
    request: FindFeatures,
    cancelled: Callable[[], bool],
    claim: Callable[[Sequence[int]], None] = lambda _: None,
) -> Generator[Progress | None, None, FeaturesFound]:
    """Yields how far it is, and None where others may compute. The sequence is empty afterwards.
    Raises `BadFile`, `BadSetting`, `NotSupported`, `Cancelled`, and as `make_prompt`.
    """
    sae = open_autoencoder(request.sae, request.site)
    tokens = text_tokens(model, sequence, request.text)
    if not 1 <= request.top <= MOST_TOP:
        raise BadSetting("top", request.top, f"a number from 1 to {MOST_TOP}")
    if not 1 <= len(tokens) <= min(MOST_TOKENS, sequence.n_ctx):
        raise BadSetting("prompt", f"{len(tokens)} tokens", f"1 to {MOST_TOKENS}")
    claim(tokens)
    made = edits_for(model.built, request.text.edits, len(tokens))
    runs = PatchRuns(model, sequence, tokens, made)
    reads, writes = (placed(model.built, hook) for hook in (sae.reads, sae.writes))
    try:
        rows = yield from _rows(runs, sae, reads)
        target = rows if reads == writes else (yield from _rows(runs, sae, writes))
    finally:
        sequence.stepper.end_probes()
    _check(sae, reads, rows, target)
    counted = _Features(request.top)
    for start in range(0, len(rows), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        counted.add(sae, rows[part], target[part], start)
        if cancelled():
            raise Cancelled("finding features")
        yield Progress(request.id, "look", min(start + AT_ONCE, len(rows)), len(rows))
    return FeaturesFound(
        request.id,
        name_of(model.file),
        model.device.name,
        sae.kind,
        reads.site if reads.layer == NONE else f"{reads.site}-{reads.layer}",
        sae.n,
        text_pieces(model.tokenizer, tokens),
        counted.features,
        counted.l0,
        counted.explained,
        _named(model, sae, request.names, counted.wanted),
        _doubts(len(rows), counted.explained),
        request.sae,
        request.site,
    )


def _named(
    model: LoadedModel, sae: Autoencoder, folder: str, features: Sequence[int]
) -> dict[int, str]:
    """Names of features: explanations of a folder, else the tokens that they promote."""
    return _names(folder, features) if folder else promoted(model, sae, features[:MOST_NAMED])


def _doubts(n_rows: int, explained: float) -> list[str]:
    """A note if an autoencoder reconstructs little: it may be another model's or site's."""
    if n_rows < 2 or explained >= GOOD:
        return []
    return [f"explained variance {explained:.2f}: the autoencoder may be another model's or site's"]


def placed(built: BuiltModel, hook: Hook) -> Hook:
    """The model's own result of a hook: a norm after attention is another's in some models."""
    if hook.site != "after_attention":
        return hook
    own = "attn_post_norm" if built.results.at("attn_post_norm", hook.layer) else "ffn_norm"
    return Hook(own, hook.layer)


def _rows(runs: PatchRuns, sae: Autoencoder, hook: Hook) -> Generator[None, None, Floats]:
    """Rows [T, d] of a result. Raises `BadFile` for a result that the model does not have."""
    results = runs.model.built.results
    found = results.at(hook.site, hook.layer)
    if not found:
        raise BadFile(sae.path, f"{hook.site}-{hook.layer} is no result of this model; use --site")
    captured = yield from runs.capture(runs.tokens, runs.edits, hook.site, hook.layer)
    return captured.rows[hook.layer][-1]


def _check(sae: Autoencoder, hook: Hook, rows: Floats, target: Floats) -> None:
    """Raise `BadFile` for an autoencoder of another width."""
    for own, width in ((sae.d, rows.shape[1]), (sae.w_dec.shape[1], target.shape[1])):
        if own != width:
            problem = f"the autoencoder is for {own} numbers, {hook.site} has {width}"
            raise BadFile(sae.path, problem)


class _Features:
    """Counts over tokens; the first one is apart: what leaves it is out of all proportion."""

    def __init__(self, top: int) -> None:
        self._top = top
        self.features: list[list[ActiveFeature]] = []
        self._n = self._active = 0
        self._off = 0.0
        self._target: list[Floats] = []

    def add(self, sae: Autoencoder, rows: Floats, target: Floats, start: int) -> None:
        """Add rows from token `start` on."""
        activations = sae.encode(rows)
        top = min(self._top, sae.n)
        best = np.argpartition(-activations, top - 1, axis=1)[:, :top]
        for row, ids in zip(activations, best, strict=True):
            order = sorted(ids.tolist(), key=lambda i: (-row[i], i))
            self.features.append([ActiveFeature(i, float(row[i])) for i in order if row[i] > 0])
        skip = 1 if start == 0 else 0
        made = sae.decode(activations, rows)[skip:].astype(np.float64)
        wanted = target[skip:].astype(np.float64)
        self._off += float(((made - wanted) ** 2).sum())
        self._target.append(target[skip:])
        self._n += len(wanted)
        self._active += int((activations[skip:] > 0).sum())

    @property
    def wanted(self) -> list[int]:
        """Every feature that is listed."""
        return list(dict.fromkeys(one.index for each in self.features for one in each))

    @property
    def l0(self) -> float:
        """Active features of a token."""
        return self._active / max(1, self._n)

    @property
    def explained(self) -> float:
        """1 - squared error / variance."""
        whole = np.concatenate(self._target).astype(np.float64)
        if not whole.size:
            return 0.0
        spread = float(((whole - whole.mean(axis=0)) ** 2).sum())
        return 1 - self._off / spread if spread else 0.0


def _names(folder: str, wanted: Iterable[int]) -> dict[int, str]:
    """Explanations of features in Neuronpedia's export. Raises `BadFile`."""
    path, needed = Path(folder).expanduser(), set(wanted)
    files = sorted(one for one in path.glob("batch-*") if _BATCH.fullmatch(one.name))
    if not files:
        raise BadFile(path, "holds no batch-N.jsonl.gz of explanations")
    found: dict[int, str] = {}
    for one in files:
        for named in _explained(one):
            if named[0] in needed:
                found.setdefault(*named)
    return found


def _explained(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            while line := file.readline(MOST_LINE):
                entry = json.loads(line) if line.strip() else {}
                index = entry.get("index") if isinstance(entry, dict) else None
                text = entry.get("description") if isinstance(entry, dict) else None
                if isinstance(text, str) and str(index).isdecimal():
                    yield int(str(index)), text
    except (OSError, EOFError, ValueError, RecursionError) as error:
        raise BadFile(path, f"is not a file of explanations ({error})") from None


def promoted(model: LoadedModel, sae: Autoencoder, features: Sequence[int]) -> dict[int, str]:
    """The tokens that features promote, read from their decoder rows; none of another width."""
    own = model.built.model
    if not isinstance(own, Decoder) or sae.w_dec.shape[1] != own.params.n_embd:
        return {}
    found = {}
    for start in range(0, len(features), AT_ONCE):
        part = list(features[start : start + AT_ONCE])
        for index, logits in zip(part, lens_logits(model.stepper, sae.w_dec[part]), strict=True):
            best = np.argsort(-logits, kind="stable")[:PROMOTED].tolist()
            found[index] = " ".join(model.tokenizer.shown(token) for token in best)
    return found
