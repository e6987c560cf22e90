"""The worker's loop: one request at a time, cancel heard at once, errors caught in one place."""

import os
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from queue import SimpleQueue

import msgspec
import numpy as np

from engine import protocol
from engine.backends.opencl.drivers.device import list_devices
from engine.errors import BadSetting, CutawayError, NoMem
from engine.gguf import GGUFFile, open_gguf
from engine.memory.pools import listen
from engine.memory.records import BackendMemory
from engine.memory.trim import keep_little, trim
from engine.models.build import build_model
from engine.reports import MemoryEvent
from engine.runner.bench import bench
from engine.runner.describe import describe_plan
from engine.runner.devices import open_devices
from engine.runner.dry_run import DryRun
from engine.runner.generate import generate
from engine.runner.loading import LoadedModel, cache_format, load_model, name_of
from engine.runner.perplexity import score
from engine.runner.placement import Placed, place
from engine.runner.profile import profile, roof_of
from engine.runner.records import event, held, planned
from engine.runner.sequence import Sequenced
from engine.runner.stepper import MAX_BATCH

PROGRESS_STEPS = 200


def serve(pipe: Connection) -> None:
    """Answer requests until the pipe closes or `Shutdown` comes."""
    keep_little()
    _Server(pipe).run()


class _Server:
    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._requests: SimpleQueue[protocol.Request] = SimpleQueue()
        self._cancelled: set[int] = set()
        self._model: LoadedModel | None = None
        self._sequence: Sequenced | None = None
        self._events: list[MemoryEvent] = []
        listen(lambda change: self._events.append(event(change)))

    def run(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()
        while True:
            request = self._requests.get()
            if isinstance(request, protocol.Shutdown):
                break
            try:
                self._answer(request)
            except CutawayError as error:
                self._send(protocol.Failed(request.id, error.kind, str(error)))
            except MemoryError:
                text = "the system has no memory left; close programs or choose a smaller context"
                self._send(protocol.Failed(request.id, "NoMem", text))
            except Exception as error:  # noqa: BLE001  a bug: told to the app, the worker lives on
                traceback.print_exc()
                text = f"unexpected {type(error).__name__}: {error}"
                self._send(protocol.Failed(request.id, "Unexpected", text))
            self._cancelled.discard(request.id)
        self._close_model()

    def _listen(self) -> None:
        """Runs in a thread of its own, so that Cancel and a vanished app are heard mid-step."""
        decode = msgspec.msgpack.Decoder(protocol.Request).decode
        while True:
            try:
                request = decode(self._pipe.recv_bytes())
            except (EOFError, OSError):
                os._exit(0)
            except msgspec.DecodeError:
                traceback.print_exc()  # its last line is what the app shows
                os._exit(1)
            if isinstance(request, protocol.Cancel):
                self._cancelled.add(request.id)
            else:
                self._requests.put(request)

    def _send(self, message: protocol.Reply) -> None:
        if self._events:  # what happened to memory before that
            events, self._events = self._events, []
            self._send(protocol.MemoryEvents(0, events))
        try:
            self._pipe.send_bytes(msgspec.msgpack.encode(message))
        except OSError:
            os._exit(0)

    def _asked_to_stop(self, request: protocol.Message) -> Callable[[], bool]:
        return lambda: request.id in self._cancelled

    def _answer(self, request: protocol.Request) -> None:
        match request:
            case protocol.Load():
                self._load(request)
            case protocol.Unload():
                self._close_model()
                self._send(protocol.Unloaded(request.id))
            case protocol.Predict():
                with self._place(request) as (_, placed):
                    self._send(planned(request.id, placed.dry, placed.failure))
            case protocol.Plan():
                with self._place(request) as (file, placed):
                    self._send(describe_plan(request, placed, name_of(file)))
            case protocol.Generate():
                model, sequence = self._open_model()
                for event in generate(model, sequence, request, self._asked_to_stop(request)):
                    self._send(event)
                model.forget_rows()
            case protocol.Perplexity():
                self._perplexity(request)
            case protocol.Bench():
                self._bench(request)
            case protocol.Profile():
                self._profile(request)
            case protocol.ListDevices():
                self._send(protocol.Devices(request.id, [d.row() for d in list_devices()]))

    def _load(self, request: protocol.Load) -> None:
        self._close_model()
        last = ("", 0)

        def progress(stage: str, done: int, total: int) -> None:
            nonlocal last
            step = (stage, done * PROGRESS_STEPS // max(1, total))
            if step != last:
                last = step
                self._send(protocol.Progress(request.id, stage, done, total))

        placing: DryRun | None = None

        def placed(dry: DryRun) -> None:
            nonlocal placing
            placing = dry
            self._send(planned(0, dry, dry.refused()))

        def allocated(dry: DryRun) -> None:
            self._send(held(dry))

        stop = self._asked_to_stop(request)
        try:
            model = load_model(request.path, request.options, progress, stop, placed, allocated)
        except NoMem as refused:
            if isinstance(refused.memory, BackendMemory) and placing is not None:
                self._send(held(placing, refused.memory))
            raise
        self._model, self._sequence = model, Sequenced(model.stepper)
        self._send(held(model.dry))
        self._send(model.describe(request))

    @contextmanager
    def _place(
        self, request: protocol.Predict | protocol.Plan
    ) -> Iterator[tuple[GGUFFile, Placed]]:
        """A model and where it would go, open for as long as that is looked at."""
        options = request.options
        with open_gguf(request.path) as file, ExitStack() as stack:
            built = build_model(file, options.ctx, MAX_BATCH, cache_format(options))
            yield file, place(built, open_devices(options, stack), options)

    def _open_model(self) -> tuple[LoadedModel, Sequenced]:
        if self._model is None or self._sequence is None:
            raise BadSetting("model", None, "a loaded model; open one first")
        return self._model, self._sequence

    def _close_model(self) -> None:
        model, self._model, self._sequence = self._model, None, None
        if model is not None:
            model.close()
            del model
            trim()

    def _perplexity(self, request: protocol.Perplexity) -> None:
        model, sequence = self._open_model()
        sequence.tokens.clear()
        stop = self._asked_to_stop(request)
        chunks = score(
            model.stepper, model.tokenizer, request.text, request.n_ctx, request.top_k, stop
        )
        for done, total, latest in chunks:
            result = latest
            self._send(protocol.Progress(request.id, "score", done, total, latest.perplexity))
        model.stepper.forget(0)
        kept = request.top_k > 0
        self._send(
            protocol.PerplexityDone(
                request.id,
                result.perplexity,
                result.error,
                total,
                request.n_ctx,
                request.top_k,
                result.tokens.astype("<i4").tobytes(),
                np.stack(result.ids).astype("<i4").tobytes() if kept else b"",
                np.stack(result.logp).astype("<f4").tobytes() if kept else b"",
            )
        )

    def _bench(self, request: protocol.Bench) -> None:
        model, sequence = self._open_model()
        total, samples = request.repetitions, []
        stop = self._asked_to_stop(request)
        for taken in bench(model, sequence, request.test, total, request.warm_up, stop):
            samples.append(taken)
            self._send(protocol.Progress(request.id, "bench", len(samples), total))
        self._send(protocol.BenchDone(request.id, samples))

    def _profile(self, request: protocol.Profile) -> None:
        model, sequence = self._open_model()
        total, profiles = len(request.depths), []
        stop = self._asked_to_stop(request)
        for one in profile(model, sequence, request.n_tokens, request.depths, request.steps, stop):
            profiles.append(one)
            self._send(protocol.Progress(request.id, "bench", len(profiles), total))
        self._send(protocol.ProfileDone(request.id, profiles, *roof_of(model.device)))
