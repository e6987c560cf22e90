"""From a path to a model that answers: devices, weights, caches, arenas."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from engine.backends.base import Backend
from engine.backends.host.backend import HostBackend
from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.device import open_device
from engine.errors import BadFile, BadSetting, DeviceError
from engine.gguf import GGUFFile, open_gguf
from engine.gguf.formats import Format, by_name
from engine.models.build import BuiltModel, build_model
from engine.protocol import Load, Loaded
from engine.runner.placement import Placement, place
from engine.runner.stepper import MAX_BATCH, Stepper
from engine.scheduler.plan import Planner
from engine.settings import KV_TYPES, EngineOptions
from engine.tokenizer import ChatTemplate, Tokenizer, load_chat_template, load_tokenizer
from engine.weights.load import allocate, free, upload

StageProgress = Callable[[str, int, int], None]


@dataclass
class LoadedModel:
    """Everything one open model owns. `close` gives it all back."""

    file: GGUFFile
    tokenizer: Tokenizer
    template: ChatTemplate
    built: BuiltModel
    stepper: Stepper
    backends: tuple[Backend, ...]
    placement: Placement
    _closing: ExitStack

    @property
    def device(self) -> Backend:
        """The device that holds the layers."""
        return self.backends[0]

    def describe(self, request: Load) -> Loaded:
        """What the app is told about it."""
        metadata = self.file.metadata
        notes = []
        if self.device.is_host and request.options.device is None:
            notes.append(
                "running on the host reference, which is slow: no OpenCL device is in use;"
                " `cutaway doctor` says what to install"
            )
        if request.options.ctx is not None and request.options.ctx > self.built.n_ctx:
            notes.append(f"the context is {self.built.n_ctx} tokens, all it was trained for")
        if self.template.source == "none":
            notes.append("the file has no chat template: text is continued, not answered")
        return Loaded(
            request.id,
            path=str(self.file.paths[0]),
            name=metadata.get("general.name", str, Path(self.file.paths[0]).stem),
            architecture=metadata.architecture,
            device=self.device.name,
            device_name=getattr(self.device, "title", self.device.name),
            n_ctx=self.built.n_ctx,
            n_ctx_train=self.built.n_ctx_train,
            n_vocab=self.built.n_vocab,
            chat=self.template.source,
            notes=notes,
        )

    def close(self) -> None:
        """Free memory, release devices, unmap the file. Harmless when done twice."""
        self._closing.close()


def load_model(
    path: str | Path,
    options: EngineOptions,
    progress: StageProgress = lambda stage, done, total: None,
    cancelled: Callable[[], bool] = lambda: False,
    placing: Callable[[Placement], None] = lambda placement: None,
    allocated: Callable[[Placement], None] = lambda placement: None,
) -> LoadedModel:
    """Open a GGUF file on a device; `placing` hears what will be allocated, `allocated` what is.

    Raises `BadFile`, `UnsupportedModel`, `TensorMismatch`, `NoMem`, `DeviceError`, `BadSetting`,
    `Cancelled`.
    """
    if options.ctx is not None and options.ctx < 1:
        raise BadSetting("ctx", options.ctx, "a number of tokens from 1 up")
    with ExitStack() as stack:
        file = stack.enter_context(open_gguf(path))
        built = build_model(file, options.ctx, MAX_BATCH, cache_format(options))
        tokenizer = load_tokenizer(file.metadata)
        if tokenizer.size > built.n_vocab:
            problem = f"{tokenizer.size} tokens but logits for {built.n_vocab}"
            raise BadFile(file.paths[0], problem)
        template = load_chat_template(file.metadata, tokenizer)
        backends = open_backends(options, stack)
        placement = place(built, backends)
        placing(placement)
        placed = allocate((*placement.weights, *placement.caches))
        stack.callback(lambda: free(placed.values()))
        allocated(placement)
        upload(
            file,
            built.sources,
            placement.backend_of,
            placed,
            lambda done, total: progress("load", done, total),
            cancelled,
        )
        for tensor in placement.mapped:
            placed[tensor] = backends[-1].map(file.data(built.sources[tensor]))
        planner = Planner(backends, placed)
        stack.callback(planner.close)
        stepper = Stepper(built, planner, options.flash_attention is not False)
        stepper.reserve()
        if not backends[0].is_host:
            backends[0].watch_builds(lambda done, total: progress("compile", done, total))
            stepper.warm_up()
        return LoadedModel(
            file, tokenizer, template, built, stepper, backends, placement, stack.pop_all()
        )
    raise AssertionError  # the stack never swallows an exception


def cache_format(options: EngineOptions) -> Format:
    """What keys and values are kept in. Raises `BadSetting`."""
    if options.kv not in KV_TYPES:
        raise BadSetting("kv", options.kv, f"one of {', '.join(KV_TYPES)}")
    fmt = by_name(options.kv)
    if fmt.quantized and options.flash_attention is False:
        raise BadSetting("kv", options.kv, "f16 or f32: quantised caches need flash attention")
    return fmt


def open_backends(options: EngineOptions, stack: ExitStack) -> tuple[Backend, ...]:
    host = HostBackend()
    if options.device == "host":
        return (host,)
    try:
        found = open_device(options.device).limited(options.threads)
    except DeviceError:
        if options.device is not None:
            raise
        return (host,)
    device = OpenCLBackend(found, options.budget.get(found.info.name))
    stack.callback(device.close)
    return (device, host)
