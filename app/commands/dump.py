"""`cutaway dump`: the numbers of weights, and of results while a text is computed."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.terminal.edits import add_edit_options, edits_of
from app.terminal.options import add_engine_options, count, engine_options
from app.terminal.text import print_json
from engine.errors import BadSetting
from engine.protocol import DumpResults, ResultPart, ResultsDumped
from engine.settings import EngineOptions

if TYPE_CHECKING:
    from app.terminal.dumped import DumpedNumbers

NAME = "dump"
HELP = "print or save the numbers of weights and of results"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("model", metavar="MODEL", help="path, stored name or org/repo[:quant]")
    parser.add_argument(
        "--tensors",
        action="append",
        required=True,
        metavar="PATTERN",
        help=(
            "regular expression that matches whole names: l_out-3, Qcur-.*, blk\\.0\\..*;"
            " repeatable"
        ),
    )
    parser.add_argument("-p", "--prompt", metavar="TEXT", help="prompt; without it, only weights")
    parser.add_argument("--chat", action="store_true", help="apply the chat template to TEXT")
    parser.add_argument(
        "--image",
        action="append",
        default=[],
        metavar="FILE",
        help="add this picture to the message; repeatable",
    )
    parser.add_argument(
        "--steps", type=count, default=0, metavar="N", help="tokens to generate after the text (0)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="X.npz",
        help="save all results (name#occurrence@step) and weights",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    for name, value, text in (
        ("precision", 4, "decimal places"),
        ("threshold", 1000, "print arrays up to this size whole"),
        ("edge-items", 3, "numbers to print at each end of a longer array"),
    ):
        help = f"{text} ({value})"
        parser.add_argument(f"--{name}", type=count, default=value, metavar="N", help=help)
    add_edit_options(parser)
    add_engine_options(parser)


def run(args: argparse.Namespace) -> int:
    """Prints the numbers, and stores them where that is wanted.

    Raises BadSetting, BadFile, ModelNotFound, RemoteError, WorkerDied.
    """
    from app.library import resolve
    from app.terminal.dumped import DumpedNumbers, DumpForm
    from engine.gguf.reader import open_gguf
    from engine.patterns import Pattern

    patterns = {text: Pattern("--tensors", text) for text in args.tensors}
    options = engine_options(args)
    if args.out is not None and not args.out.absolute().parent.is_dir():
        raise BadSetting("--out", str(args.out), "a file in an existing folder")
    if args.prompt is None and (args.image or args.chat or args.steps):
        raise BadSetting("-p", "", "a text, for --image, --chat and --steps")
    form = DumpForm(args.precision, args.threshold, args.edge_items)
    path = resolve(args.model)
    numbers = DumpedNumbers(form, prints=not args.json, keeps=args.out is not None)
    with open_gguf(path) as file:
        for name in file.tensors:
            if any(one.matches(name) for one in patterns.values()):
                numbers.weight(file, name)
    steps = [] if args.prompt is None else _compute(args, path, options, numbers)
    for text, pattern in patterns.items():
        if not any(pattern.matches(name) for name in numbers.names):
            more = "" if args.prompt is not None else "; results need -p TEXT"
            raise BadSetting("--tensors", text, f"what a whole name matches{more}")
    if args.out is not None:
        numbers.store(args.out)
    if args.json:
        print_json({"steps": steps, "tensors": numbers.rows})
    return 0


def _compute(
    args: argparse.Namespace, path: Path, options: EngineOptions, numbers: "DumpedNumbers"
) -> list[dict[str, Any]]:
    """Gives the numbers of the text's results to `numbers`; returns what each step read."""
    from app.terminal.engine import CommandEngine
    from app.terminal.pictures import question_about

    edits = edits_of(args)
    with CommandEngine(path, options) as engine:
        loaded = engine.start()
        messages, prompt = question_about(engine, loaded, args.prompt, args.image, args.chat)
        request = DumpResults(
            engine.worker.new_id(),
            probes=args.tensors,
            messages=messages,
            prompt=prompt,
            tokens=args.steps,
            edits=edits,
        )
        for reply in engine.send(request):
            if isinstance(reply, ResultPart):
                numbers.part(reply)
        assert isinstance(reply, ResultsDumped)
        return [{"first": s.first, "tokens": s.tokens, "text": s.text} for s in reply.steps]
