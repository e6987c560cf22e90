"""`cutaway serve`: the model for other programs, over HTTP."""

import argparse
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.serve.settings import PORT, QUEUE, ServeSettings, read_key
from app.terminal.edits import add_edit_options, edits_of
from app.terminal.options import (
    add_engine_options,
    add_sampling_options,
    chosen_values,
    count,
    engine_options,
    positive,
)
from engine.settings import API_KEY

NAME = "serve"
HELP = "serve a model over HTTP (OpenAI, Anthropic and Ollama APIs)"
PARALLEL = 4
OWN = ("parallel",)  # an option of the engine that has another default here
INTERRUPTED = 130


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument(
        "model", metavar="MODEL", nargs="?", help="path, stored name or org/repo[:quant]"
    )
    group = parser.add_argument_group("server")
    group.add_argument("--host", default="", metavar="H", help="address to listen on (loopback)")
    group.add_argument(
        "--port", type=count, default=PORT, metavar="N", help=f"port, 0 picks one ({PORT})"
    )
    group.add_argument(
        "--api-key", metavar="KEY", help="API key that clients must send (CUTAWAY_API_KEY)"
    )
    group.add_argument(
        "--api-key-file", metavar="FILE", help="file with the API key, readable only by you"
    )
    group.add_argument("--alias", default="", metavar="A,B", help="model names to report instead")
    group.add_argument("--models", default="", metavar="A,B", help="models to load on request")
    group.add_argument("--any-model", action="store_true", help="accept any model name")
    group.add_argument(
        "--parallel", type=positive, default=PARALLEL, metavar="N",
        help=f"parallel requests ({PARALLEL})",
    )  # fmt: skip
    group.add_argument(
        "--queue",
        type=count,
        default=QUEUE,
        metavar="N",
        help=f"requests that may wait in the queue ({QUEUE})",
    )
    group.add_argument(
        "--allowed-host", default="", metavar="A,B", help="additional accepted Host names"
    )
    group.add_argument(
        "--allow-origin", default="", metavar="A,B", help="allowed web origins (CORS)"
    )
    group.add_argument(
        "--fetch-images",
        default="",
        metavar="A,B",
        help="https hosts that pictures may be fetched from",
    )
    group.add_argument(
        "--metrics", action="store_true", help="expose Prometheus metrics at /metrics"
    )
    group.add_argument(
        "--defaults", choices=("cutaway", "openai"), default="cutaway",
        help="default sampling: the model's (cutaway) or OpenAI's",
    )  # fmt: skip
    group.add_argument("--stop-loops", action="store_true", help="stop repetitive answers")
    group.add_argument(
        "--spm-infill",
        action="store_true",
        help="fill-in: suffix before prefix, which some models prefer",
    )
    add_sampling_options(parser)
    add_edit_options(parser)
    add_engine_options(parser, without=OWN)


def run(args: argparse.Namespace) -> int:
    """Serves until Ctrl+C or SIGTERM. Raises BadSetting, ModelNotFound, RemoteError, WorkerDied."""
    settings = _settings(args)
    settings.check()
    options = replace(engine_options(args, without=OWN), parallel=args.parallel)

    from app.commands.run import find_model
    from app.library import with_draft
    from app.local_engine import LocalEngine
    from app.serve.keeper import Keeper
    from app.serve.server import Serving

    named = ([args.model] if args.model or not args.models else []) + [*_listed(args.models)]
    paths = {_name(name, path): path for name in named for path in [find_model(name)]}
    keeps = options.kept_chats != 0
    settings = replace(settings, models=tuple(paths) if len(paths) > 1 else (), keeps=keeps)
    options = with_draft(options)
    engine, host = LocalEngine(), None
    serving = Serving(engine, settings)
    serving.clients.listen(_log_ended)
    with _signals(serving.hurry) as stopped, _logged():
        try:
            serving.start()
            host = _shared(engine)
            return _serve(serving, Keeper(engine, serving, paths, options, host), stopped)
        finally:
            serving.stop()
            if host is not None:
                host.close()
            engine.close()


def _shared(engine: Any) -> Any:
    """A window that opens this model uses this engine; None where that cannot be, which is said."""
    from app.shared.host import EngineHost
    from engine.errors import BadSetting

    host = EngineHost(engine, "cutaway serve")
    try:
        host.start()
    except BadSetting as error:
        logging.getLogger("server").info("the engine is not shared with the window: %s", error)
        return None
    return host


def _serve(serving: Any, keeper: Any, stopped: "_Stopped") -> int:
    from app.terminal.progress import Bar
    from app.terminal.text import note
    from app.words import STAGES
    from engine.errors import Cancelled

    try:
        with Bar() as bar:
            loaded = keeper.load(
                lambda p: bar.update(STAGES[p.stage][0].lower(), p.done, p.total), stopped
            )
    except Cancelled:
        return INTERRUPTED
    for text in loaded.notes:
        note(text)
    print(serving.address, flush=True)
    keeper.keep(note, stopped)
    return 0


def _log_ended(event: object) -> None:
    """A line for each request that has ended: who, what, how long; nothing of what was said."""
    from app.serve.clients import RequestEnded

    if isinstance(event, RequestEnded):
        row = event.row
        tokens = f"{row.n_prompt} + {row.n_generated} tokens"
        values = (row.client, row.path, tokens, row.seconds, row.ended)
        logging.getLogger("server").info("%s %s: %s, %.1f s, %s", *values)


class _Stopped:
    """Records Ctrl+C and SIGTERM. The second calls `hurry`, the third interrupts."""

    def __init__(self, hurry: Callable[[], None]) -> None:
        self._event = threading.Event()
        self._hurry = hurry
        self._n_signals = 0

    def __call__(self) -> bool:
        return self._event.is_set()

    def on_signal(self, number: int, frame: object) -> None:
        self._n_signals += 1
        self._event.set()
        if self._n_signals == 2:
            self._hurry()
        elif self._n_signals > 2:
            raise KeyboardInterrupt


@contextmanager
def _signals(hurry: Callable[[], None]) -> Iterator[_Stopped]:
    stopped = _Stopped(hurry)
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, stopped.on_signal) for number in numbers]
    try:
        yield stopped
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def _logged() -> Iterator[None]:
    """Write the server's log to stderr, one line per entry."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    log = logging.getLogger("server")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)


def _settings(args: argparse.Namespace) -> ServeSettings:
    key = args.api_key if args.api_key is not None else API_KEY.get()
    if args.api_key_file is not None:
        key = read_key(Path(args.api_key_file))
    return ServeSettings(
        host=args.host,
        port=args.port,
        key=key,
        slots=args.parallel,
        queue=args.queue,
        aliases=_listed(args.alias),
        any_model=args.any_model,
        allowed_hosts=_listed(args.allowed_host),
        allow_origins=_listed(args.allow_origin),
        fetch_images=_listed(args.fetch_images),
        metrics=args.metrics,
        openai_defaults=args.defaults == "openai",
        suggested=not args.no_suggested,
        sampling=chosen_values(args),
        stop_loops=args.stop_loops,
        spm_infill=args.spm_infill,
        edits=tuple(edits_of(args)),
    )


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _name(name: str | None, path: Path) -> str:
    """Return the model's display name: as the user gave it, or its file's name."""
    from app import names

    is_path = name is None or Path(name).suffix.lower() == ".gguf" or "/" in name
    return names.stem(path.name) if is_path or name is None else name
