"""`cutaway run`: one answer, or a chat on a terminal."""

import argparse
import sys
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs, to_builtins

from app.defaults import Suggested
from app.terminal.edits import add_edit_options, edits_of
from app.terminal.options import (
    add_engine_options,
    add_sampling_options,
    add_server_options,
    chosen_values,
    count,
    engine_options,
    sampling_for,
)
from app.terminal.text import bounded
from engine.errors import BadSetting, CutawayError, ModelNotFound
from engine.protocol import (
    AnswerForm,
    ChatMessage,
    Generate,
    Grammar,
    Infill,
    JsonSchema,
    Loaded,
    Regex,
    Sampling,
)
from engine.settings import EngineOptions
from engine.units import MIB

LONGEST = 1 << 18
"""Bytes of a file; the engine takes no longer ones."""


def add_form_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that form_of() reads."""
    group = parser.add_argument_group("structured output").add_mutually_exclusive_group()
    group.add_argument(
        "--json-schema", metavar="FILE", help="JSON schema file that the answer must match"
    )
    group.add_argument(
        "--grammar", metavar="FILE", help="grammar file (Lark, or GBNF with suffix .gbnf)"
    )
    group.add_argument(
        "--regex", metavar="REGEX", help="regular expression that the whole answer must match"
    )


def add_tool_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that tools_of() reads."""
    group = parser.add_argument_group("tools")
    group.add_argument(
        "--tool",
        action="append",
        default=[],
        metavar="NAME",
        help="offer a built-in tool: calculator, current_time, read_attachment; repeatable",
    )
    group.add_argument(
        "--mcp",
        action="append",
        default=[],
        metavar="FILE",
        help="offer the tools of the MCP servers in this mcp.json, each started with your consent;"
        " repeatable",
    )
    group.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="SERVER__TOOL",
        help="start this server and allow calls of this tool without a question; repeatable",
    )


def tools_of(args: argparse.Namespace, documents: "list[Document]") -> "TerminalTools | None":
    """The tools, if any were named. Raises BadSetting, BadTools."""
    if not (args.tool or args.mcp or args.allow):
        return None
    from app.terminal.tools import TerminalTools
    from app.tools.consent import ConsentStore, consent_file

    store = ConsentStore(consent_file())
    return TerminalTools(args.tool, args.mcp, args.allow, store, documents)


def form_of(args: argparse.Namespace) -> AnswerForm | None:
    """The form, if one was named. Raises BadSetting for a file that cannot be read."""
    if args.json_schema is not None:
        return JsonSchema(_text("--json-schema", args.json_schema))
    if args.grammar is not None:
        is_gbnf = Path(args.grammar).suffix.lower() == ".gbnf"
        return Grammar(_text("--grammar", args.grammar), "gbnf" if is_gbnf else "lark")
    return None if args.regex is None else Regex(args.regex)


def _text(option: str, name: str) -> str:
    try:
        with Path(name).expanduser().open("rb") as file:
            data = file.read(LONGEST + 1)
        if len(data) > LONGEST:
            raise BadSetting(option, name, f"a file of at most {LONGEST} bytes")
        return data.decode("utf-8-sig")
    except OSError as error:
        raise BadSetting(option, name, f"a file that can be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise BadSetting(option, name, "a file of UTF-8 text") from None


if TYPE_CHECKING:
    from app.documents.document import Document
    from app.terminal.engine import CommandEngine
    from app.terminal.tools import TerminalTools

NAME = "run"
HELP = "chat with a model, or get one answer"
MIXED = True  # options are allowed between MODEL and PROMPT

DEFAULT_MODEL = "smollm2-135m"
MOST_TOKENS = 4096
INTERRUPTED = 130


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument(
        "model", metavar="MODEL", nargs="?", help="path, stored name or org/repo[:quant]"
    )
    parser.add_argument(
        "words", metavar="PROMPT", nargs="?", help="answer this and exit; default: stdin, or a chat"
    )
    parser.add_argument("-p", "--prompt", metavar="TEXT", help="answer TEXT; needs no MODEL")
    parser.add_argument(
        "--image",
        action="append",
        default=[],
        metavar="FILE",
        help="add this picture to the prompt; repeatable",
    )
    parser.add_argument(
        "--file",
        action="append",
        default=[],
        metavar="FILE",
        help="add the text of this file or folder to the prompt (- is stdin); repeatable",
    )
    add_tool_options(parser)
    parser.add_argument("--system", metavar="TEXT", help="system prompt")
    parser.add_argument(
        "--suffix",
        metavar="TEXT",
        help="write the text between the prompt and this one (code models)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object after the answer")
    _add_answer_options(parser)
    add_sampling_options(parser)
    add_edit_options(parser)
    add_server_options(parser)
    add_engine_options(parser)


def _add_answer_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("answer")
    group.add_argument(
        *("-n", "--max-tokens"),
        type=count,
        metavar="N",
        help=f"maximum tokens of an answer ({MOST_TOKENS} for one answer, the context in a chat)",
    )
    group.add_argument(
        "--stop", action="append", default=[], metavar="TEXT", help="stop string; repeatable"
    )
    group.add_argument(
        "--logprobs",
        type=count,
        default=0,
        metavar="N",
        help="show the N likeliest tokens at each position",
    )
    group.add_argument(
        "--when-full",
        choices=("shift", "middle", "stop"),
        default="stop",
        help="when the context is full: drop the oldest, cut a prompt's middle, or stop (stop)",
    )
    add_form_options(parser)
    group.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="random seed; the same seed gives the same answer (random)",
    )


def run(args: argparse.Namespace) -> int:
    """Answers, or chats. Raises BadSetting, BadTools, ModelNotFound, RemoteError, WorkerDied."""
    template = _template(args)
    options = engine_options(args)
    system = _utf8("--system", args.system)
    if args.suffix is not None and (args.image or args.tool or args.mcp or args.system):
        raise BadSetting("--suffix", args.suffix, "a prompt alone, without pictures and tools")
    if args.words is not None and args.prompt is not None:
        raise BadSetting("-p", args.prompt, "one prompt: after MODEL, or with -p")
    given = args.words if args.prompt is None else args.prompt
    plain = given is not None or args.suffix is not None or args.json
    chats = not plain and _is_terminal()
    prompt = None if chats else _prompt(given, "-" in args.file)
    documents = [_document(name) for name in args.file]
    tools = tools_of(args, documents)

    from app.documents.document import with_documents
    from app.terminal.chat import Chat
    from app.terminal.pictures import check_sees
    from app.terminal.text import aside, note

    with closing(tools) if tools is not None else nullcontext(), _engine(args, options) as engine:
        loaded = engine.start()
        if args.image:
            check_sees(loaded)
        suits = sampling_for(loaded, args)
        template = _suited(template, suits)
        for text in suits.notes:
            note(text)
        aside(f"sampling: {suits.line}")
        if tools is not None:
            tools.start()
        if prompt is not None:
            prompt = with_documents(prompt, documents)
            template = _filling(args, template, prompt)
            return _answer_once(args, engine, loaded, template, prompt, tools, suits)
        chat = Chat(engine, loaded, template, system, tools=tools)
        chat.waiting = [chat.pictures.send(path) for path in args.image]
        chat.documents = documents
        chat.run()
        return 0


def _answer_once(
    args: argparse.Namespace,
    engine: "CommandEngine",
    loaded: Loaded,
    template: Generate,
    prompt: str,
    tools: "TerminalTools | None",
    suits: Suggested,
) -> int:
    """Answer one prompt; the exit status."""
    from app.terminal.answer import as_json, logprob_table, print_ending
    from app.terminal.pictures import PicturesInWorker, described, question
    from app.terminal.text import aside, note, print_json, whole
    from app.terminal.tools import answer_with_tools

    pictures = PicturesInWorker(engine)
    shown = [pictures.send(path) for path in args.image]
    for info in shown:
        aside(f"picture {described(info)}")
    messages = [ChatMessage("system", args.system)] if args.system else []
    messages.append(question(prompt, shown))
    bounded = template.max_tokens is None
    if bounded:
        template = structs.replace(template, max_tokens=MOST_TOKENS)
    made, _, uses = answer_with_tools(
        engine, loaded, template, messages, pictures, tools, quiet=args.json
    )
    if args.json:
        called = {"calls": to_builtins(uses)} if tools is not None else {}
        print_json(as_json(made, loaded) | {"sampling": suits.as_json()} | called)
    elif template.logprobs:
        whole("\n".join(logprob_table(made.tokens)))
    print_ending(made, loaded)
    if bounded and made.finished is not None and made.finished.reason == "length":
        note(f"stopped after {MOST_TOKENS} tokens; --max-tokens N allows more")
    if not made.cancelled:
        sys.stdout.flush()
        engine.save_prefixes()
        if damage := engine.keep_weights():
            raise CutawayError(f"{damage}; this answer may be wrong: run the command again")
    return INTERRUPTED if made.cancelled else 0


def _engine(args: argparse.Namespace, options: EngineOptions) -> "CommandEngine":
    """This machine's engine, or a server."""
    from app.terminal.server import server_named

    server = server_named(args, options)
    if server is not None:
        return server
    from app.library import with_draft
    from app.terminal.engine import CommandEngine

    return CommandEngine(find_model(args.model), with_draft(options))


def _template(args: argparse.Namespace) -> Generate:
    chosen_values(args)  # refused before a model is opened
    sampling = Sampling(seed=args.seed)
    sampling.check()
    return Generate(
        0,
        sampling=sampling,
        max_tokens=args.max_tokens,
        stop_loops=True,
        stop=[_utf8("--stop", text) or "" for text in args.stop],
        logprobs=args.logprobs,
        when_full=args.when_full,
        form=form_of(args),
        edits=edits_of(args),
        chat="",
    )


def _filling(args: argparse.Namespace, template: Generate, prompt: str) -> Generate:
    """The request that fills in, for --suffix."""
    if args.suffix is None:
        return template
    infill = Infill(prompt, _utf8("--suffix", args.suffix) or "")
    return structs.replace(template, infill=infill)


def _suited(template: Generate, suits: Suggested) -> Generate:
    """The request with the model's sampling, and its stops where none were given."""
    sampling = structs.replace(suits.sampling, seed=template.sampling.seed)
    return structs.replace(template, sampling=sampling, stop=template.stop or [*suits.stop])


def _is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _document(name: str) -> "Document":
    """A file's document; `-` is standard input. Raises BadDocument."""
    from app.documents.document import Document
    from app.documents.reading import decoded, read_document

    if name != "-":
        return read_document(Path(name).expanduser())
    if sys.stdin is None or sys.stdin.isatty():
        raise BadSetting("--file", name, "a file, or text on stdin")
    data = bounded(sys.stdin.buffer, "stdin")
    return Document("stdin", "text", decoded(data, "stdin")[0], len(data))


def _prompt(value: str | None, stdin_is_file: bool) -> str:
    """Return the prompt: the argument, or all of stdin without its last newline."""
    if value is not None:
        text = _utf8("prompt", value) or ""
    elif stdin_is_file or sys.stdin is None or sys.stdin.isatty():
        text = ""
    else:
        try:
            text = bounded(sys.stdin.buffer, "stdin").decode("utf-8")
            text = text.removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise BadSetting("stdin", error.object[error.start], "UTF-8 text") from None
    if not text.strip():
        raise BadSetting("prompt", text, "some text: after MODEL, with -p, or on stdin")
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
