"""`cutaway inspect`: a model's metadata and tensors, or the numbers in one of them."""

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from app.terminal.text import plain, print_json, table, whole
from engine.errors import BadSetting
from engine.units import MIB

if TYPE_CHECKING:
    from app.defaults import Suggested
    from engine.gguf.reader import GGUFFile

NAME = "inspect"
HELP = "show a model's metadata and tensors"

MOST_DECIMALS = 1100  # a double has no more
_WIDTH = 72  # characters of a metadata value


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds this command's arguments."""
    parser.add_argument("model", metavar="MODEL", help="path, stored name or org/repo[:quant]")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--json", action="store_true", help="print everything as JSON")
    shown.add_argument("--tensor", metavar="NAME", help="print one tensor's numbers, dequantised")
    for name, value, text in (
        ("precision", 4, "--tensor: decimal places"),
        ("threshold", 1000, "--tensor: print arrays up to this size whole"),
        ("edge-items", 3, "--tensor: numbers to print at each end of a longer array"),
    ):
        help = f"{text} (default {value})"
        parser.add_argument(f"--{name}", type=int, default=value, metavar="N", help=help)


def run(args: argparse.Namespace) -> int:
    """Prints the summary, or a tensor's numbers.

    Raises BadFile, ModelNotFound for a name that leads nowhere, BadSetting for numbers below 0.
    """
    from app.defaults import facts_in, suggested
    from app.library import resolve
    from engine.gguf.reader import open_gguf
    from engine.gguf.summary import summarize

    if args.precision > MOST_DECIMALS:
        raise BadSetting("--precision", args.precision, f"0 to {MOST_DECIMALS}")
    path = resolve(args.model)
    with open_gguf(path) as file:
        if args.tensor is not None:
            whole(_numbers(file, args))
            return 0
        summary = summarize(file)
        suits = suggested(facts_in(path, file.metadata)) if summary["architecture"] else None
    if args.json:
        print_json(summary | {"sampling": suits.as_json() if suits else None}, indent=2)
    else:
        print("\n".join(_lines(summary, suits)))
    return 0


def _numbers(file: "GGUFFile", args: argparse.Namespace) -> str:
    from engine.gguf.dump import dump

    blocks = file.data(args.tensor)
    info = file.tensors[args.tensor]
    return dump(
        blocks.reshape(*info.shape[:0:-1], -1),
        info.fmt,
        precision=args.precision,
        threshold=args.threshold,
        edge_items=args.edge_items,
    )


def _lines(summary: dict[str, Any], suits: "Suggested | None") -> Iterable[str]:
    yield from (plain(path) for path in summary["files"])
    yield (
        f"{plain(summary['architecture'] or 'no architecture')}, "
        f"{summary['parameters'] / 1e6:.1f} M parameters, {summary['size'] / MIB:.1f} MiB, "
        f"GGUF version {summary['version']}, {summary['byteorder']}-endian"
    )
    yield "\ntypes"
    rows = summary["types"].items()
    yield from table(
        ((name, f"{t['tensors']} tensors", f"{t['bytes'] / MIB:.1f} MiB") for name, t in rows),
    )
    if suits is not None:
        yield "\nsampling"
        rows = ((f, f"{getattr(suits.sampling, f):g}", suits.text(f)) for f in suits.origins)
        yield from table(rows, left=(0, 2))
        yield from (plain(text) for text in suits.notes)
    yield "\nmetadata"
    yield from table(((plain(k), _shown(v)) for k, v in summary["metadata"].items()), left=(0, 1))
    yield "\ntensors"
    head = ("name", "type", "shape", "bytes", "offset")
    yield from table([head, *map(_tensor_row, summary["tensors"])], left=(0, 1))


def _tensor_row(tensor: dict[str, Any]) -> tuple[str, ...]:
    shape = " x ".join(map(str, tensor["shape"]))
    return (plain(tensor["name"]), tensor["type"], shape, str(tensor["bytes"]), _place(tensor))


def _place(tensor: dict[str, Any]) -> str:
    part = f"{tensor['file'] + 1}:" if tensor["file"] else ""
    return f"{part}{tensor['offset']}"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        first = ", ".join(_shown(item) for item in value["first"])
        more = ", ..." if value["count"] > len(value["first"]) else ""
        text = f"{value['count']} x {value['type']}: {first}{more}"
    else:
        text = plain(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."
