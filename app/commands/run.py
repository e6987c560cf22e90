"""`cutaway run`: one answer, or a chat on a terminal."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from app.terminal.forms import add_form_options, form_of
from app.terminal.options import add_engine_options, add_server_options, count, engine_options
from app.terminal.text import bounded
from engine.errors import BadSetting, ModelNotFound
from engine.protocol import ChatMessage, Generate, Sampling
from engine.settings import EngineOptions
from engine.units import MIB

if TYPE_CHECKING:
    from app.terminal.engine import CommandEngine

NAME = "run"
HELP = "chat with a model, or get one answer"

DEFAULT_MODEL = "smollm2-135m"
INTERRUPTED = 130


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    usual = Sampling()
    parser.add_argument(
        "model", metavar="MODEL", nargs="?", help="path, stored name or org/repo[:quant]"
    )
    parser.add_argument(
        "-p", "--prompt", metavar="TEXT", help="answer this and leave; else stdin, or a chat"
    )
    parser.add_argument(
        "--image",
        action="append",
        default=[],
        metavar="FILE",
        help="show the model this picture; repeatable",
    )
    parser.add_argument("--system", metavar="TEXT", help="the system message")
    parser.add_argument("--json", action="store_true", help="one JSON object after the answer")
    group = parser.add_argument_group("answer")
    group.add_argument("--max-tokens", type=count, metavar="N", help="end after so many tokens")
    group.add_argument(
        "--stop", action="append", default=[], metavar="TEXT", help="end before it; repeatable"
    )
    group.add_argument(
        "--logprobs", type=count, default=0, metavar="N", help="show the N likeliest tokens of each"
    )
    group.add_argument(
        "--when-full",
        choices=("shift", "middle", "stop"),
        default="shift",
        help="when the context is full: drop the oldest, cut a prompt's middle, or stop (shift)",
    )
    add_form_options(parser)
    group = parser.add_argument_group("sampling")
    for option, kind, default, text in (
        ("--temp", float, usual.temperature, "temperature, 0 takes the likeliest token"),
        ("--top-k", count, usual.top_k, "draw from the K likeliest, 0 from all"),
        ("--top-p", float, usual.top_p, "draw from the likeliest that reach P together"),
        ("--min-p", float, usual.min_p, "draw from those P times as likely as the likeliest"),
        ("--repeat-penalty", float, usual.repeat_penalty, "divide logits of what was said"),
        ("--frequency-penalty", float, usual.frequency_penalty, "lower logits for each time"),
        ("--presence-penalty", float, usual.presence_penalty, "lower logits of what was said"),
    ):
        group.add_argument(
            option, type=kind, default=default, metavar="X", help=f"{text} ({default})"
        )
    group.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="equal seeds draw equally (random); the same command says the same again",
    )
    add_server_options(parser)
    add_engine_options(parser)


def run(args: argparse.Namespace) -> int:
    """Answers, or chats. Raises BadSetting, ModelNotFound, RemoteError, WorkerDied."""
    template = _template(args)
    options = engine_options(args)
    system = _utf8("--system", args.system)
    chats = args.prompt is None and not args.json and _is_terminal()
    prompt = None if chats else _prompt(args.prompt)

    from app.terminal.answer import answer, as_json, logprob_table, tell
    from app.terminal.chat import Chat
    from app.terminal.pictures import BroughtPictures, check_sees, described, question
    from app.terminal.text import aside, print_json, whole

    with _engine(args, options) as engine:
        loaded = engine.start()
        if args.image:
            check_sees(loaded)
        if prompt is None:
            chat = Chat(engine, loaded, template, system)
            chat.waiting = [chat.pictures.bring(path) for path in args.image]
            chat.run()
            return 0
        pictures = BroughtPictures(engine)
        shown = [pictures.bring(path) for path in args.image]
        for info in shown:
            aside(f"picture {described(info)}")
        messages = [ChatMessage("system", system)] if system else []
        messages.append(question(prompt, shown))
        made = answer(engine, template, messages, quiet=args.json, pictures=pictures)
        if args.json:
            print_json(as_json(made, loaded))
        elif template.logprobs:
            whole("\n".join(logprob_table(made.tokens)))
        tell(made, loaded)
        return INTERRUPTED if made.cancelled else 0


def _engine(args: argparse.Namespace, options: EngineOptions) -> "CommandEngine":
    """This machine's engine, or a server."""
    from app.terminal.server import server_named

    server = server_named(args, options)
    if server is not None:
        return server
    from app.terminal.engine import CommandEngine

    return CommandEngine(find_model(args.model), options)


def _template(args: argparse.Namespace) -> Generate:
    sampling = Sampling(
        temperature=args.temp,
        top_k=args.top_k,
        top_p=args.top_p,
        min_p=args.min_p,
        repeat_penalty=args.repeat_penalty,
        frequency_penalty=args.frequency_penalty,
        presence_penalty=args.presence_penalty,
        seed=args.seed,
    )
    sampling.check()
    return Generate(
        0,
        sampling=sampling,
        max_tokens=args.max_tokens,
        stop=[_utf8("--stop", text) or "" for text in args.stop],
        logprobs=args.logprobs,
        when_full=args.when_full,
        form=form_of(args),
    )


def _is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _prompt(given: str | None) -> str:
    """What is to be answered: the option, or all of stdin without its last end of line."""
    if given is not None:
        text = _utf8("-p", given) or ""
    elif sys.stdin is None or sys.stdin.isatty():
        text = ""
    else:
        try:
            text = bounded(sys.stdin.buffer, "stdin").decode("utf-8")
            text = text.removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise BadSetting("stdin", error.object[error.start], "UTF-8 text") from None
    if not text.strip():
        raise BadSetting("prompt", text, "some text: -p TEXT, or on stdin")
    return text


def _utf8(name: str, text: str | None) -> str | None:
    """`text`, which the shell may have filled with bytes that are no text."""
    try:
        (text or "").encode()
    except UnicodeEncodeError:
        raise BadSetting(name, text, "UTF-8 text") from None
    return text


def find_model(name: str | None) -> Path:
    """The model's file; without a name the first on this disk. What is known can be fetched."""
    from app.library import first_usable, resolve

    if name is None:
        return first_usable() or _offer(DEFAULT_MODEL, "no model is on this disk")
    from app.fetch.known import KNOWN

    try:
        return resolve(name)
    except ModelNotFound:
        if name not in KNOWN:
            raise
        return _offer(name, "it is not on this disk")


def _offer(name: str, problem: str) -> Path:
    """Fetches a known model if the person at the terminal says so."""
    from app.commands.get import fetch_with_progress
    from app.fetch.known import KNOWN
    from app.terminal.text import confirm, interactive

    refused = ModelNotFound(name, f"{problem}; fetch it with `cutaway get {name}`")
    if not interactive():
        raise refused
    model = KNOWN[name]
    size = f"{model.size / MIB:.0f} MiB, {model.licence}"
    if not confirm(f"{name}: {problem}. Fetch it ({size})?"):
        raise refused
    return fetch_with_progress(name)
