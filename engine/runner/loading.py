"""From a path to a model that answers: devices, weights, caches, arenas."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.backends.base import Backend, Component, Location, Owner
from engine.backends.host.backend import HostBackend
from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.device import open_device
from engine.errors import BadFile, DeviceError
from engine.gguf import GGUFFile, open_gguf
from engine.graph.tensor import Tensor
from engine.models.build import BuiltModel, build_model
from engine.protocol import Loaded
from engine.runner.stepper import MAX_BATCH, Stepper
from engine.scheduler.plan import Planner
from engine.settings import EngineOptions
from engine.tokenizer import ChatTemplate, Tokenizer, load_chat_template, load_tokenizer
from engine.weights.load import Progress, free, load_weights, matmul_only


@dataclass
class LoadedModel:
    """Everything one open model owns. `close` gives it all back."""

    file: GGUFFile
    tokenizer: Tokenizer
    template: ChatTemplate
    built: BuiltModel
    stepper: Stepper
    backends: tuple[Backend, ...]
    placed: Mapping[Tensor, Location]
    _closing: ExitStack

    @property
    def device(self) -> Backend:
        """The device that holds the layers."""
        return self.backends[0]

    def describe(self, request_id: int) -> Loaded:
        """What the app is told about it."""
        metadata = self.file.metadata
        notes = []
        if self.device.is_host:
            notes.append(
                "running on the host reference, which is slow: no OpenCL device is in use;"
                " `cutaway doctor` says what to install"
            )
        if self.template.source == "none":
            notes.append("the file has no chat template: text is continued, not answered")
        return Loaded(
            request_id,
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
    progress: Progress = lambda done, total: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> LoadedModel:
    """Open a GGUF file on a device.

    Raises `BadFile`, `UnsupportedModel`, `TensorMismatch`, `NoMem`, `DeviceError`, `Cancelled`.
    """
    with ExitStack() as stack:
        file = stack.enter_context(open_gguf(path))
        built = build_model(file, options.ctx, MAX_BATCH)
        tokenizer = load_tokenizer(file.metadata)
        if tokenizer.size > built.n_vocab:
            problem = f"{tokenizer.size} tokens but logits for {built.n_vocab}"
            raise BadFile(file.paths[0], problem)
        template = load_chat_template(file.metadata, tokenizer)
        backends = _open_backends(options, stack)
        placed = _place(file, built, backends, progress, cancelled, stack)
        planner = Planner(backends, placed)
        stack.callback(planner.close)
        stepper = Stepper(built, planner, options.flash_attention is not False)
        stepper.reserve()
        return LoadedModel(
            file, tokenizer, template, built, stepper, backends, placed, stack.pop_all()
        )
    raise AssertionError  # the stack never swallows an exception


def _open_backends(options: EngineOptions, stack: ExitStack) -> tuple[Backend, ...]:
    host = HostBackend()
    if options.device == "host":
        return (host,)
    try:
        found = open_device(options.device)
    except DeviceError:
        if options.device is not None:
            raise
        return (host,)
    device = OpenCLBackend(found, options.budget.get(found.info.name))
    stack.callback(device.close)
    return (device, host)


def _place(
    file: GGUFFile,
    built: BuiltModel,
    backends: tuple[Backend, ...],
    progress: Progress,
    cancelled: Callable[[], bool],
    stack: ExitStack,
) -> dict[Tensor, Location]:
    device, host = backends[0], backends[-1]
    embedding = built.model.weights.embedding.weight
    _, graph = built.build(1, 1, built.buckets([0] * len(built.caches.caches)))

    placed = load_weights(
        file,
        built.sources,
        lambda tensor: host if tensor is embedding else device,
        built.layer_of,
        matmul_only(graph),
        progress,
        cancelled,
    )
    stack.callback(lambda: free(placed.values()))
    for i, layer in enumerate(built.layers):
        for cache in (layer.k, layer.v):
            kind = device.buffer_type(cache.fmt, cache.shape)
            size = device.allocation_size(kind, cache.fmt, cache.shape)
            buffer = device.allocate(kind, size, Owner(Component.CACHE, i))
            placed[cache] = Location(buffer, 0)
            buffer.write(0, np.zeros(size, np.uint8))
    return placed
