"""The files of a model: its own, the one that makes it see, and those of adapters."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from engine.device.backend import Bytes
from engine.errors import BadFile, BadSetting, TensorMismatch, UnsupportedModel
from engine.gguf import GGUFFile, open_gguf, projectors
from engine.gguf.formats import Q8_0, Format
from engine.gguf.metadata import Metadata
from engine.gguf.values import Array
from engine.graph.tensor import Tensor
from engine.models.adapters import check_scale
from engine.models.build import BuiltModel, build_model, with_adapters, with_tower
from engine.models.vision.build import has_tower
from engine.protocol import Vision
from engine.settings import MOST_PARALLEL, EngineOptions, drafters
from engine.weights.load import InFile

MOST_BASES = 8  # that are looked at
LONGEST = 60  # characters of a name that are shown


def doubts(model: GGUFFile, tower: GGUFFile, weights: Iterable[Tensor]) -> tuple[str, ...]:
    """A line for each, with the next step. `weights` are the tower's; its file may be the model's.

    Another model's projector of the same kind and width cannot be recognized by its tensors, and
    what is then said of pictures is wrong without a sign of it.
    """
    return (*_stranger(model, tower), *_coarse(tower, weights))


def _stranger(model: GGUFFile, tower: GGUFFile) -> Iterator[str]:
    """Where nothing that the two files call themselves or come from is the same.

    Old converters give a projector the name of its encoder alone, which says nothing.
    """
    own, its = _names(model.metadata), _names(tower.metadata)
    has_more = any(key != "general.name" for key in its)
    if own and has_more and not {*map(_plain, own.values())} & {*map(_plain, its.values())}:
        names = f"{_names_text(its)}, not from {_names_text(own)}"
        step = "if answers about pictures are wrong, choose another vision file (mmproj)"
        yield f"{tower.paths[0].name} was made for {names}: {step}"


def _names(metadata: Metadata) -> dict[str, str]:
    """Return a file's name and the names of its base models, by key; the most important first."""
    keys = [
        f"general.base_model.{i}.{key}" for i in range(MOST_BASES) for key in ("name", "repo_url")
    ]
    found = {}
    for key in (*keys, "general.basename", "general.name"):
        value = metadata[key].value if key in metadata else None
        if isinstance(value, str) and _plain(value):
            found[key] = value.rstrip("/").rpartition("/")[2]
    return found


def _plain(name: str) -> str:
    """Letters and digits, for comparing."""
    return re.sub(r"[\W_]+", "", name.rstrip("/").rpartition("/")[2].casefold())


def _names_text(names: dict[str, str]) -> str:
    return " ".join(next(iter(names.values())).split())[:LONGEST]


def _coarse(tower: GGUFFile, weights: Iterable[Tensor]) -> Iterator[str]:
    coarse = {t.fmt for t in weights if _bits(t.fmt) < _bits(Q8_0)}
    if coarse:
        names = ", ".join(sorted(fmt.name for fmt in coarse))
        step = "it may miss small details; prefer a file in F16 or Q8_0"
        yield f"{tower.paths[0].name} has weights in {names}: {step}"


def _bits(fmt: Format) -> float:
    """Per weight."""
    return 8 * fmt.bytes / fmt.block


NONE = "none"


@dataclass(frozen=True)
class Opened:
    """A model with its caches, its file, and that of its tower (the same one, where it holds both).

    `notes` show why it does not see, where it might have been meant to, or not well.
    """

    file: GGUFFile
    built: BuiltModel
    tower_file: GGUFFile | None = None
    notes: tuple[str, ...] = ()
    adapter_files: tuple[GGUFFile, ...] = ()

    def file_of(self, tensor: Tensor) -> GGUFFile:
        """Where a weight is read."""
        tower = self.built.tower
        if tensor in self.built.of_adapters:
            pairs = zip(self.built.adapters, self.adapter_files, strict=True)
            return next(file for adapter, file in pairs if tensor in adapter.sources)
        if tower is not None and tensor in tower.sources:
            assert self.tower_file is not None
            return self.tower_file
        return self.file

    def stored(self, tensor: Tensor) -> InFile:
        """Its file, and its name there."""
        return InFile(self.file_of(tensor), self.built.sources[tensor])

    def data(self, tensor: Tensor) -> Bytes:
        """The blocks of a weight, mapped."""
        return self.file_of(tensor).data(self.built.sources[tensor])

    @cached_property
    def vision(self) -> Vision | None:
        """The vision encoder's description, or None."""
        tower = self.built.tower
        if tower is None or self.tower_file is None:
            return None
        size = sum(tensor.nbytes for tensor in tower.sources)
        return Vision(tower.kind, str(self.tower_file.paths[0]), size)


def open_model(
    path: str | Path, options: EngineOptions, n_batch: int, kv: Format, stack: ExitStack
) -> Opened:
    """Open a model's file and, by `options.mmproj`, the one of its tower. Reads no weights.

    A file that was named must fit; one that was found beside the model is left, with a note, where
    it does not; adapters are those of `options.lora`. Raises `BadFile`, `UnsupportedModel`,
    `TensorMismatch`, `BadSetting`, `NotSupported`.
    """
    opened = _open(path, options, n_batch, kv, stack)
    if not options.lora:
        return opened
    for name, scale in options.lora.items():
        check_scale(name, scale)
    files = tuple(stack.enter_context(open_gguf(name)) for name in options.lora)
    return replace(opened, built=with_adapters(opened.built, files), adapter_files=files)


def _open(
    path: str | Path, options: EngineOptions, n_batch: int, kv: Format, stack: ExitStack
) -> Opened:
    if options.image_tokens is not None and options.image_tokens < 1:
        raise BadSetting("image_tokens", options.image_tokens, "a number of tokens from 1 up")
    file = stack.enter_context(open_gguf(path))
    if not 1 <= options.parallel <= MOST_PARALLEL:
        raise BadSetting("parallel", options.parallel, f"a number from 1 to {MOST_PARALLEL}")
    together = (options.parallel, options.cells)
    drafting = drafters(options.spec_type)
    predicts = "mtp" in drafting and not options.model_draft
    built = build_model(file, options.ctx, n_batch, kv, *together, predicts)
    if drafting == {"mtp"} and built.predicting is None:
        raise BadSetting("--spec-type", options.spec_type, _other_drafters(options))
    if options.mmproj == NONE:
        return Opened(file, built)
    has_token = _vocabulary(file)
    if options.mmproj:
        tower_file = stack.enter_context(open_gguf(options.mmproj))
        if not has_tower(tower_file):
            raise BadFile(tower_file.paths[0], "it holds no vision tower; name an mmproj file")
        return _seeing(
            file, with_tower(built, tower_file, has_token, options.image_tokens), tower_file
        )
    notes = []
    for found in [Path(path)] if has_tower(file) else projectors.beside(path):
        try:
            tower_file = file if has_tower(file) else stack.enter_context(open_gguf(found))
            return _seeing(
                file, with_tower(built, tower_file, has_token, options.image_tokens), tower_file
            )
        except UnsupportedModel as error:
            if has_tower(file):  # else it may be that of another model in the folder
                notes.append(f"pictures are not read: {error}")
        except (BadFile, TensorMismatch) as error:
            notes.append(f"pictures are not read: {error}")
    return Opened(file, built, notes=tuple(notes))


def _other_drafters(options: EngineOptions) -> str:
    """Name the drafters that can be chosen if no block predicts further tokens."""
    if options.model_draft:
        return "draft beside --model-draft, or no --model-draft: only one of both guesses"
    return "a file with blocks that predict further tokens (nextn); this one has none: use ngram"


def _seeing(file: GGUFFile, built: BuiltModel, tower_file: GGUFFile) -> Opened:
    assert built.tower is not None
    return Opened(file, built, tower_file, doubts(file, tower_file, built.tower.sources))


def _vocabulary(file: GGUFFile) -> Callable[[str], bool]:
    """True if a model's vocabulary has a text; it is read on first use."""
    known: frozenset[str] | None = None

    def has_token(text: str) -> bool:
        nonlocal known
        if known is None:
            known = frozenset(file.metadata.get("tokenizer.ggml.tokens", Array).strings())
        return text in known

    return has_token
