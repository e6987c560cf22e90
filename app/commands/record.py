"""`cutaway record`: numbers of a model's inside over a set of texts."""

import argparse
from pathlib import Path
from typing import Any, get_args

import msgspec

from app.terminal.options import add_engine_options, engine_options
from app.terminal.text import print_json, table
from app.words import UNKNOWN
from engine.errors import BadSetting
from engine.protocol import DatasetRecorded, ProbeAt, RecordDataset, RecordKind

NAME = "record"
HELP = "record experts, an importance matrix, neurons, norms or probes over a set of texts"
CHUNK = 512
SHOWN = 8  # experts of a layer


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("model", metavar="MODEL", help="path, stored name or org/repo[:quant]")
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        help="text files, folders (*.txt, *.md), or JSONL with `text` and `label`",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for results")
    parser.add_argument(
        "--what",
        default="norms",
        metavar="KINDS",
        help=f"{', '.join(get_args(RecordKind))}; several with commas (norms)",
    )
    parser.add_argument(
        "--layers", default="", metavar="A:B", help="layers A to before B of neurons, norms, probe"
    )
    parser.add_argument(
        "--at",
        choices=get_args(ProbeAt),
        default="last",
        help="which tokens of a text a probe reads (last)",
    )
    parser.add_argument(
        "--process-output", action="store_true", help="count the output matrix in imatrix, too"
    )
    parser.add_argument(
        "--dat", action="store_true", help="write the importance matrix in the old format, too"
    )
    parser.add_argument("--resume", action="store_true", help="continue what is in DIR")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_engine_options(parser)
    parser.set_defaults(ctx=str(CHUNK))


def run(args: argparse.Namespace) -> int:
    """Prints what was recorded and the files in the folder.

    Raises BadSetting, ModelNotFound, RemoteError, WorkerDied.
    """
    options = engine_options(args)
    kinds = [kind.strip() for kind in args.what.split(",") if kind.strip()]
    for kind in kinds:
        if kind not in get_args(RecordKind):
            raise BadSetting("--what", kind, f"some of {', '.join(get_args(RecordKind))}")

    from app.library import resolve
    from app.terminal.engine import CommandEngine, Interrupt

    with CommandEngine(resolve(args.model), options) as engine, Interrupt() as interrupt:
        engine.start()
        request = RecordDataset(
            engine.new_id(),
            [str(Path(path).expanduser().absolute()) for path in args.paths],
            str(args.out.expanduser().absolute()),
            msgspec.convert(kinds, list[RecordKind]),
            options.ctx or CHUNK,
            args.resume,
            _layers(args.layers),
            args.at,
            args.process_output,
            args.dat,
        )
        *_, found = engine.send(request, interrupt)
    assert isinstance(found, DatasetRecorded)
    if args.json:
        made: dict[str, Any] = msgspec.to_builtins(found, str_keys=True)
        del made["id"], made["type"]
        print_json(made)
        return 0
    _print(found, args.out)
    return 0


def _layers(text: str) -> list[int]:
    if not text:
        return []
    first, _, end = text.partition(":")
    numbers = [first, end or "0"]
    if not all(one.isdecimal() and len(one) < 7 for one in numbers):
        raise BadSetting("--layers", text, "A:B, layers from A to before B, or one layer")
    return list(range(int(first), int(end))) if end else [int(first)]


def _print(found: DatasetRecorded, out: Path) -> None:
    earlier = f" ({found.resumed} of them in earlier runs)" if found.resumed else ""
    print(f"{found.name} on {found.device}: {found.n_tokens} tokens{earlier}")
    print(f"  {found.n_documents} texts")
    if found.experts:
        rows = [["layer", "experts, the most used first"]]
        for layer, counts in found.experts.items():
            best = sorted(range(len(counts)), key=lambda i: -counts[i])[:SHOWN]
            rows.append([str(layer), "  ".join(f"{i}: {counts[i]}" for i in best)])
        for line in table(rows, left=(1,)):
            print(line)
    if found.probes:
        rows = [["layer", "accuracy", "AUC", "shuffled labels"]]
        for one in found.probes:
            area = UNKNOWN if one.auc is None else f"{one.auc:.3f}"
            accuracy = f"{one.accuracy:.3f} ± {one.error:.3f}"
            rows.append([str(one.layer), accuracy, area, f"{one.shuffled:.3f}"])
        for line in table(rows):
            print(line)
    for name in found.files:
        print(out / name)
