"""From a path to a model that answers: devices, weights, caches, arenas."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter

from engine.device.backend import Backend, Component
from engine.errors import BadFile, BadSetting
from engine.gguf import GGUFFile
from engine.gguf.formats import Format, by_name
from engine.gguf.general import general_values
from engine.models.adapters import Adapter, check_scale
from engine.models.base import Output
from engine.models.build import BuiltModel
from engine.models.head import Pooling
from engine.progress import part
from engine.protocol import Gives, Load, Loaded, LoraAdapter
from engine.runner.batch import MAX_BATCH
from engine.runner.devices import OpenedDevices, open_devices
from engine.runner.drafting.model import DraftModel, Guesser
from engine.runner.drafting.mtp import PredictingDrafts
from engine.runner.pictures.beside import Opened, open_model
from engine.runner.pictures.marking import Marking
from engine.runner.pictures.viewer import Viewer
from engine.runner.placing.dry_run import DryRun
from engine.runner.placing.graphs import ModelGraphs
from engine.runner.placing.placement import place
from engine.runner.placing.room import Room, StageProgress, fill
from engine.runner.placing.shelf import WeightShelf
from engine.runner.prefixes.kept import KeptPrefixes
from engine.runner.records import records
from engine.runner.stepper import Stepper
from engine.sampling.constraint import FormWords
from engine.scheduler.costs import costs
from engine.settings import KV_TYPES, PICTURE_ROWS, EngineOptions
from engine.tokenizer import ChatTemplate, Tokenizer, load_chat_template, load_tokenizer
from engine.units import MIB
from engine.weights.load import repacked
from engine.weights.prepared.store import path_for
from engine.weights.prepared.use import PreparedWeights

SHORT_PROMPT = 32


@dataclass
class LoadedModel:
    """Everything one open model owns, and by what it was opened. `close` gives it all back."""

    path: str
    options: EngineOptions
    opened: Opened
    tokenizer: Tokenizer
    template: ChatTemplate
    room: Room
    viewer: Viewer | None
    devices: OpenedDevices
    dry: DryRun
    prefixes: KeptPrefixes
    draft: Guesser | None
    _closing: ExitStack

    @cached_property
    def form_words(self) -> FormWords:
        """Its vocabulary for answers of a form."""
        return FormWords(self.tokenizer)

    @property
    def file(self) -> GGUFFile:
        """The text model's."""
        return self.opened.file

    @property
    def built(self) -> BuiltModel:
        return self.opened.built

    @property
    def draft_source(self) -> str:
        """The kind of model that drafts for it, "" for none."""
        return "" if self.draft is None else self.draft.source

    @property
    def backends(self) -> tuple[Backend, ...]:
        """Backends in use, by priority, the host last."""
        return self.dry.backends

    @property
    def stepper(self) -> Stepper:
        return self.room.stepper

    @property
    def device(self) -> Backend:
        """The device that holds the most layers."""
        return self.dry.main

    @property
    def adapters(self) -> list[LoraAdapter]:
        """Its adapters as they are now."""
        opened, scales = self.opened, self.stepper.scales
        return [
            LoraAdapter(name_of(file), str(file.paths[0]), scale, len(one.pairs), _size(one))
            for file, one, scale in zip(
                opened.adapter_files, self.built.adapters, scales, strict=True
            )
        ]

    def scale_adapters(self, scales: Sequence[float]) -> None:
        """Scale all adapters, in order; whoever holds sequences without scales of their own clears
        them before. Raises `BadSetting`.
        """
        files = self.opened.adapter_files
        if len(scales) != len(files):
            expected = f"{len(files)} scales, one for each adapter that is open"
            raise BadSetting("scales", list(scales), expected)
        for file, scale in zip(files, scales, strict=True):
            check_scale(str(file.paths[0]), scale)
        self.stepper.scales = tuple(scales)

    def plans(self) -> Iterator[None]:
        """Make the plan of a short first prompt, as long as nothing was read; yields before."""
        stepper = self.stepper
        is_first = not any(cache.n_kv for cache in self.built.caches.caches)
        if is_first and not self.device.is_host and not stepper.is_ready(SHORT_PROMPT, 1, 1):
            yield
            stepper.ready(SHORT_PROMPT)

    def forget_rows(self) -> None:
        """Drop the file's pages that token lookups brought in: over a long chat they would add up
        to the whole embedding table.
        """
        looked_up = [t for t, owner in self.dry.mapped if owner.component is Component.INPUT]
        for tensor in looked_up:
            stored = self.opened.stored(tensor)
            stored.file.drop_pages([stored.name])

    def describe(self, request: Load) -> Loaded:
        """Describe the model for the app."""
        metadata = self.file.metadata
        notes = []
        if self.device.is_host and request.options.device is None:
            notes.append(
                "running on the slow host reference: no OpenCL device is in use;"
                " run `cutaway doctor`"
            )
        if request.options.ctx is not None and request.options.ctx > self.built.n_ctx:
            notes.append(f"the context is {self.built.n_ctx} tokens, the model's maximum")
        if self.built.pooling is Pooling.RANK and not request.embeds:
            notes.append("the file is a reranker: its answers mean little; use `cutaway rerank`")
        notes += self.opened.notes
        notes += [str(cost) for cost in costs(self.stepper.one_token().division)]
        alone = self.template.source == "none" and self.built.model.encoder is not None
        if alone:
            notes.append("each message is answered by itself: the model's encoder reads one text")
        elif self.template.source == "none" and not request.embeds:
            notes.append("the file has no chat template: the model continues text")
        return Loaded(
            request.id,
            path=str(self.file.paths[0]),
            name=name_of(self.file),
            architecture=metadata.architecture,
            device=self.device.name,
            device_name=getattr(self.device, "title", self.device.name),
            n_ctx=self.built.n_ctx,
            n_ctx_train=self.built.n_ctx_train,
            n_vocab=self.built.n_vocab,
            chat="alone" if alone else self.template.source,
            notes=notes,
            details=[
                *self.dry.placement.reasons,
                *repacked(self.dry.weights),
                *self._taken_over(),
                *self.room.prepared.report(),
                *[f"draft model: {self.options.model_draft}"] * (self.draft_source == "draft"),
                *["mtp: a block of the model predicts further tokens"]
                * (self.draft_source == "mtp"),
                *(f"adapter {a.name} x {a.scale:g}: {a.matrices} matrices" for a in self.adapters),
                *records(self.dry).log_lines(),
            ],
            vision=self.opened.vision,
            prepared=self.room.prepared.size,
            general=general_values(metadata),
            adapters=self.adapters,
            fills=not self.tokenizer.fim.missing,
            gives=_gives(self.built),
        )

    def _taken_over(self) -> list[str]:
        size = sum(t.nbytes for t in self.room.filled)
        return [f"reused from the previous model: {size / MIB:.1f} MiB of weights"] * bool(size)

    def close_but_weights(self) -> WeightShelf:
        """Like `close`, but for the weights on devices: the next model may take them over."""
        shelf = self.room.shelve(self.dry)
        try:
            self.close()
        except BaseException:
            shelf.close()
            raise
        return shelf

    def close(self) -> None:
        """Free memory, release devices, unmap the file. Harmless when done twice."""
        try:
            self._closing.close()
        finally:
            for backend in self.devices.backends:
                backend.close()


def _gives(built: BuiltModel) -> tuple[Gives, ...]:
    """The results that a person can ask for."""
    rows = Output.EMBEDDINGS in built.model.gives
    there: dict[Gives, bool] = {
        "text": built.output is Output.LOGITS,
        "embeddings": rows and built.pooling is not Pooling.RANK,
        "scores": rows and built.head is not None and built.head.ranks,
    }
    return tuple(what for what, is_there in there.items() if is_there)


def load_model(
    path: str | Path,
    options: EngineOptions,
    progress: StageProgress = lambda stage, done, total: None,
    cancelled: Callable[[], bool] = lambda: False,
    placing: Callable[[DryRun], None] = lambda dry: None,
    allocated: Callable[[DryRun], None] = lambda dry: None,
    embeds: bool = False,
    shelf: WeightShelf | None = None,
) -> LoadedModel:
    """Open a GGUF file on its devices; `placing` receives what will be allocated, `allocated` what
    is. It must write text, or where it `embeds` give embeddings. What lies on the `shelf` as it is
    wanted is taken over, the rest of it freed before anything is allocated.

    Where memory runs out `NoMem` has the records, and everything is freed again.

    Raises `BadFile`, `UnsupportedModel`, `GivesNoText`, `OnlyRanks`, `TensorMismatch`, `NoMem`,
    `DeviceError`, `BadSetting`, `Cancelled`.
    """
    if options.ctx is not None and options.ctx < 1:
        raise BadSetting("ctx", options.ctx, "a number of tokens from 1 up")
    with ExitStack() as opening, ExitStack() as stack:
        with part("opening"):
            opened, tokenizer, template = _open(path, options, embeds, stack)
        file, built = opened.file, opened.built
        # It comes first, so that this model is placed in what it leaves.
        draft: Guesser | None = _draft_model(
            tokenizer, built.n_vocab, options, progress, cancelled, stack
        )
        with part("opening"):
            devices = open_devices(options, opening)
            prepared = PreparedWeights(path_for(file, options, devices.backends))
        room = stack.enter_context(Room(opened, options, placing, shelf, prepared))
        graphs = ModelGraphs.of(built, options)
        with part("planning"):
            placement = place(graphs, devices, options, room.take)
        if placement.failure is not None:
            placing(placement.dry)
            raise placement.failure
        dry = placement.dry
        allocated(dry)
        fill(opened, dry, room, progress, cancelled)
        draft = draft or _predicting(built, tokenizer, room, options)
        for backend in dry.backends:
            backend.watch_builds(lambda done, total: progress("compile", done, total))
        if not dry.main.is_host:
            warm_up(room.stepper)
        if isinstance(draft, DraftModel):
            draft.costs.ratio = _step_seconds(draft.stepper) / _step_seconds(room.stepper)
        viewer = _viewer(built, room.stepper, dry.backends[-1], template, stack)
        adapters = opened.adapter_files
        files = {opened.stored(tensor).file for tensor in built.sources} - {*adapters}
        identities = sorted(one[1:] for each in files for one in each.identity)
        added = [[one[1:] for one in each.identity] for each in adapters]
        prefixes = KeptPrefixes(built, room, dry.backends[-1], identities, options, added)
        stack.callback(prefixes.ram.clear)
        opening.pop_all()  # devices may come and go from now on
        parts = (opened, tokenizer, template, room, viewer, devices, dry, prefixes, draft)
        return LoadedModel(str(path), options, *parts, stack.pop_all())
    raise AssertionError  # the stack never swallows an exception


def _open(
    path: str | Path, options: EngineOptions, embeds: bool, stack: ExitStack
) -> tuple[Opened, Tokenizer, ChatTemplate]:
    """Read what the files say, until the stack closes. Raises as `load_model`."""
    opened = open_model(path, options, MAX_BATCH, cache_format(options), stack)
    if not embeds:
        opened.built.check_writes()
    tokenizer = _tokenizer(opened.file, opened.built.n_vocab)
    return opened, tokenizer, load_chat_template(opened.file.metadata, tokenizer)


def _tokenizer(file: GGUFFile, n_vocab: int) -> Tokenizer:
    """The file's tokenizer. Raises `BadFile` where it has tokens that the model does not have."""
    tokenizer = load_tokenizer(file.metadata)
    # A picture's token may have an embedding and no logit.
    if tokenizer.size > max(n_vocab, n_embeddings(file)):
        raise BadFile(file.paths[0], f"{tokenizer.size} tokens but logits for {n_vocab}")
    return tokenizer


def _predicting(
    built: BuiltModel, tokenizer: Tokenizer, room: Room, options: EngineOptions
) -> PredictingDrafts | None:
    """Drafts by the model's own block, if it was bound."""
    if built.predicting is None:
        return None
    known = min(built.n_vocab, tokenizer.size)
    return PredictingDrafts(room.stepper, known, options.draft_p_min, options.draft_min)


def _draft_model(
    tokenizer: Tokenizer,
    n_vocab: int,
    options: EngineOptions,
    progress: StageProgress,
    cancelled: Callable[[], bool],
    stack: ExitStack,
) -> DraftModel | None:
    """Open the model that drafts, if one is wanted, until the stack closes. Raises as `load_model`,
    and `BadSetting` for one of another vocabulary.
    """
    if not options.model_draft:
        return None
    own = replace(
        options,
        device=options.device_draft or options.device,
        model_draft="",
        spec_type="none",
        mmproj="none",
        lora={},
        place="",
        gpu_layers=None,
        kept_chats=0,
        cache_ram=0,
    )
    loaded = load_model(options.model_draft, own, progress, cancelled)
    stack.callback(loaded.close)
    difference = tokenizer.difference(loaded.tokenizer)
    if difference:
        expected = f"a model of the same vocabulary: {difference}"
        raise BadSetting("--model-draft", options.model_draft, expected)
    known = min(n_vocab, loaded.built.n_vocab, tokenizer.size, loaded.tokenizer.size)
    return DraftModel(loaded.stepper, known, options.draft_p_min, options.draft_min)


def _step_seconds(stepper: Stepper) -> float:
    """The time of a step of one token in an empty context; the first is not counted."""
    seconds = []
    for _ in range(3):
        begun = perf_counter()
        stepper.step([0], 0, [0])
        seconds.append(perf_counter() - begun)
        stepper.forget(0)
    return min(seconds[1:])


def _viewer(
    built: BuiltModel, stepper: Stepper, host: Backend, template: ChatTemplate, stack: ExitStack
) -> Viewer | None:
    """Make what shows pictures to the model, until the stack closes; None where there is no
    tower.
    """
    if built.tower is None:
        return None
    family = built.tower.tower
    marking = Marking(template, family.markers, family.glue)
    viewer = Viewer(built.tower, stepper, host, marking, built.limits, PICTURE_ROWS.get() * MIB)
    stack.callback(viewer.close)
    return viewer


def warm_up(stepper: Stepper) -> None:
    """Build what an answer needs, and run a token of it; and a short prompt too where a driver is
    not ready without: of a large model it takes long (else see `LoadedModel.plans`).
    """
    late = any(backend.compiles_late for backend in stepper.planner.backends)
    for n_tokens in (1, SHORT_PROMPT) if late else (1,):
        with part("planning"):
            stepper.ready(n_tokens)
        with part("first token"):
            stepper.step([0] * n_tokens, 0, [n_tokens - 1], extras=stepper.any_prompt(n_tokens))
            stepper.forget(0)


def _size(adapter: Adapter) -> int:
    """Bytes of its tensors."""
    return sum(tensor.nbytes for tensor in adapter.sources)


def name_of(file: GGUFFile) -> str:
    """The model's name by its metadata, else by its file."""
    return file.metadata.get("general.name", str, Path(file.paths[0]).stem)


def names_apart(first: GGUFFile, second: GGUFFile) -> tuple[str, str]:
    """Return the names of two models, or of their files if both models have the same name, as two
    formats of one model do.
    """
    names = name_of(first), name_of(second)
    if names[0] == names[1]:
        return Path(first.paths[0]).stem, Path(second.paths[0]).stem
    return names


def cache_format(options: EngineOptions) -> Format:
    """Return the number format of the KV cache. Raises `BadSetting`."""
    if options.kv not in KV_TYPES:
        raise BadSetting("kv", options.kv, f"one of {', '.join(KV_TYPES)}")
    fmt = by_name(options.kv)
    if fmt.quantized and options.flash_attention is False:
        raise BadSetting("kv", options.kv, "f16 or f32: quantised caches need flash attention")
    return fmt


def n_embeddings(file: GGUFFile) -> int:
    """How many tokens have one."""
    table = file.tensors.get("token_embd.weight")
    return 0 if table is None else table.shape[1]
