"""`cutaway patch`: which results of a prompt's run make its answer (activation patching)."""

import argparse
from math import isnan
from pathlib import Path
from typing import Any, Literal

import msgspec

from app.files import output
from app.terminal.edits import add_edit_options, edits_of
from app.terminal.examined import floats, quoted
from app.terminal.options import add_engine_options, count, engine_options, positive
from app.terminal.text import note, print_json, table
from app.words import UNKNOWN
from engine.errors import BadSetting
from engine.protocol import ChatMessage, ComparedText, Edit, MapPatches, PatchesMapped, PatchTable

NAME = "patch"
HELP = "show which results of one prompt make its answer (activation patching)"
BEST = 5


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("model", metavar="MODEL", help="path, stored name or org/repo[:quant]")
    _add_prompts(parser)
    parser.add_argument(
        "--grid",
        choices=("residual", "parts", "heads", "experts"),
        default="residual",
        help="what is patched, layer by layer: residual and parts by position (residual)",
    )
    parser.add_argument(
        "--metric",
        choices=("logit-diff", "prob", "logprob", "kl"),
        default="logit-diff",
        help="what is measured (logit-diff: right minus wrong)",
    )
    parser.add_argument(
        "--noising",
        action="store_true",
        help="patch the clean run with the corrupt one's results, instead of the reverse",
    )
    parser.add_argument(
        "--position", type=count, metavar="N", help="patch heads or experts at position N only"
    )
    parser.add_argument("--out", type=Path, metavar="X.npz", help="save the numbers")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_edit_options(parser)
    add_engine_options(parser)


def _add_prompts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--clean", required=True, metavar="TEXT", help="the prompt")
    parser.add_argument(
        "--corrupt", default="", metavar="TEXT", help="a prompt with another answer"
    )
    parser.add_argument(
        "--noise",
        type=float,
        nargs="?",
        const=3.0,
        default=0.0,
        metavar="SD",
        help="in place of --corrupt: noise on embeddings, in standard deviations (3)",
    )
    parser.add_argument(
        "--subject", default="", metavar="TEXT", help="the part of the prompt that gets the noise"
    )
    parser.add_argument(
        "--seeds",
        type=positive,
        default=10,
        metavar="N",
        help="number of maps, each with different noise, to average (10)",
    )
    for name, side in (("right", "clean"), ("wrong", "corrupt")):
        parser.add_argument(
            f"--{name}",
            default="",
            metavar="WORD",
            help=f"a token's text, as ' Paris' (the likeliest after the {side} prompt)",
        )
    parser.add_argument("--chat", action="store_true", help="apply the chat template to both")
    parser.add_argument(
        "--before",
        default="",
        metavar="JSON",
        help='messages before both, as [{"role": …, "content": …}] (with --chat)',
    )
    parser.add_argument(
        "--answer", default="", metavar="TEXT", help="the beginning of the answer, after both"
    )


def run(args: argparse.Namespace) -> int:
    """Prints a row a layer. Raises BadFile, BadSetting, ModelNotFound, RemoteError, WorkerDied."""
    options, edits = engine_options(args), edits_of(args)
    if bool(args.corrupt) == bool(args.noise):
        raise BadSetting("--corrupt", args.corrupt or None, "a prompt, or --noise in its place")
    from app.library import resolve
    from app.terminal.engine import CommandEngine, Interrupt

    with CommandEngine(resolve(args.model), options) as engine, Interrupt() as interrupt:
        engine.start()
        request = MapPatches(
            engine.new_id(),
            _text(args.clean, args, edits),
            _text(args.corrupt, args, edits),
            args.right,
            args.wrong,
            args.grid,
            args.metric,
            args.noising,
            args.position,
            args.noise,
            args.subject,
            args.seeds,
        )
        *_, found = engine.send(request, interrupt)
    assert isinstance(found, PatchesMapped)
    if args.out is not None:
        _store(found, args.out)
    if args.json:
        print_json(as_json(found))
        return 0
    _print(found)
    return 0


class _Turn(msgspec.Struct, frozen=True):
    role: Literal["system", "user", "assistant"]
    content: str


def _text(text: str, args: argparse.Namespace, edits: list[Edit]) -> ComparedText:
    """A prompt, or a message after others, of a model with edits. Raises `BadSetting`."""
    if not args.chat:
        if args.before:
            raise BadSetting("--before", "no --chat", "--chat with it")
        return ComparedText(prompt=text, edits=edits, prefix=args.answer)
    try:
        before = msgspec.json.decode(args.before or "[]", type=list[_Turn])
    except msgspec.DecodeError as error:
        raise BadSetting("--before", args.before, f"a list of messages ({error})") from None
    turns = [ChatMessage(one.role, one.content) for one in before]
    return ComparedText([*turns, ChatMessage("user", text)], edits=edits, prefix=args.answer)


def as_json(found: PatchesMapped) -> dict[str, Any]:
    """For programs: lists in place of bytes; null where nothing was computed."""
    n = len(found.columns)

    def rows(data: bytes) -> list[list[float | None]]:
        numbers = [None if isnan(x) else x for x in floats(data)]
        return [numbers[i * n : (i + 1) * n] for i in range(len(found.layers))]

    return {
        "model": found.name,
        "device": found.device,
        "grid": found.grid,
        "direction": found.direction,
        "metric": found.metric,
        "tokens": found.tokens,
        "source_tokens": found.source_tokens,
        "right": {"id": found.right[0], "text": found.right[1]},
        "wrong": {"id": found.wrong[0], "text": found.wrong[1]},
        "source": found.source,
        "start": found.start,
        "layers": found.layers,
        "columns": found.columns,
        "values": {one.site: rows(one.values) for one in found.tables},
        "effect": {one.site: rows(one.effects) for one in found.tables},
        "pairs": [list(pair) for pair in found.pairs],
        "notes": found.notes,
        "complete": found.complete,
    }


def _store(found: PatchesMapped, path: Path) -> None:
    import numpy as np

    shape = (len(found.layers), len(found.columns))
    arrays: dict[str, Any] = {
        "layers": np.array(found.layers),
        "columns": np.array(found.columns),
        "tokens": np.array(found.tokens),
        "source_tokens": np.array(found.source_tokens),
        "source": found.source,
        "start": found.start,
    }
    for one in found.tables:
        arrays[f"values_{one.site}"] = np.frombuffer(one.values, "<f4").reshape(shape)
        arrays[f"effect_{one.site}"] = np.frombuffer(one.effects, "<f4").reshape(shape)
    with output(path) as file:
        np.savez(file, **arrays)


def _print(found: PatchesMapped) -> None:
    right, wrong = quoted(found.right[1]), quoted(found.wrong[1])
    for text in found.notes:
        note(text)
    if not found.complete:
        note("cancelled: the map is not complete")
    measured = f"{found.metric} of {right} against {wrong}"
    print(f"{measured}: {found.start:.4f}, in the run patched from {found.source:.4f}")
    for one in found.tables:
        titles = ["layer", *(_title(found, i) for i in found.columns)]
        rows = [titles, *_rows(found, one)]
        print(f"{one.site}: share of the difference that the patch makes ({found.direction})")
        for line in table(rows):
            print(line)
        print(f"largest: {', '.join(_best(found, one))}")


def _title(found: PatchesMapped, column: int) -> str:
    if found.grid in ("residual", "parts"):
        return f"{column} {quoted(found.tokens[column])}"
    return str(column)


def _rows(found: PatchesMapped, one: PatchTable) -> list[list[str]]:
    effects, n = floats(one.effects), len(found.columns)
    return [
        [str(layer), *(_share(x) for x in effects[row * n : (row + 1) * n])]
        for row, layer in enumerate(found.layers)
    ]


def _share(effect: float) -> str:
    return UNKNOWN if isnan(effect) else f"{effect:.2f}"


def _best(found: PatchesMapped, one: PatchTable) -> list[str]:
    effects, n = floats(one.effects), len(found.columns)
    known = [i for i, x in enumerate(effects) if not isnan(x)]
    best = sorted(known, key=lambda i: -abs(effects[i]))[:BEST]
    return [
        f"layer {found.layers[i // n]} at {_title(found, found.columns[i % n])} {effects[i]:.2f}"
        for i in best
    ]
