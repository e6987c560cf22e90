"""`cutaway steer make`: a control vector from two files of texts."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from app.terminal.options import add_engine_options, engine_options
from app.terminal.text import print_json, table
from app.words import UNKNOWN
from engine.errors import BadSetting
from engine.protocol import DumpResults, ResultPart

if TYPE_CHECKING:
    from app.directions import At, Floats, LayerRows
    from app.terminal.engine import CommandEngine

NAME = "steer"
HELP = "make a control vector from pairs of texts"
MOST_TEXT = 1 << 20


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="make")
    make = kinds.add_parser("make", help=HELP)
    make.add_argument("model", metavar="MODEL", help="path, stored name or org/repo[:quant]")
    for side in ("positive", "negative"):
        make.add_argument(
            f"--{side}",
            type=Path,
            required=True,
            metavar="FILE",
            help=f"{side} texts, one a line (\\n is a line break)",
        )
    make.add_argument(
        "--out", type=Path, required=True, metavar="V.gguf", help="control vector to write"
    )
    make.add_argument(
        "--method",
        choices=("mean", "pca"),
        default="mean",
        help="difference of means, or first principal component of the differences (mean)",
    )
    make.add_argument(
        "--at",
        choices=("last", "mean"),
        default="last",
        help="the last token of each text, or the mean over its tokens (last)",
    )
    make.add_argument("--chat", action="store_true", help="apply the chat template to each text")
    make.add_argument(
        "--like-llama",
        action="store_true",
        help="make the vector as llama-cvector-generator does, of all tokens, one layer earlier",
    )
    make.add_argument("--raw", action="store_true", help="keep lengths instead of length 1")
    make.add_argument("--json", action="store_true", help="print one JSON object")
    add_engine_options(make)


def run(args: argparse.Namespace) -> int:
    """Writes the file and prints a row a layer.

    Raises BadSetting, ModelNotFound, RemoteError, WorkerDied.
    """
    options = engine_options(args)
    positive, negative = (
        _lines(side, path)
        for side, path in (("--positive", args.positive), ("--negative", args.negative))
    )
    if len(positive) != len(negative):
        expected = f"{len(positive)} texts, a pair for each positive one"
        raise BadSetting("--negative", f"{len(negative)} texts", expected)
    if not args.out.absolute().parent.is_dir():
        raise BadSetting("--out", str(args.out), "a file in an existing folder")

    if args.like_llama and (args.at != "last" or args.chat or args.raw):
        raise BadSetting("--like-llama", "with others", "it without --at, --chat and --raw")

    from app.directions import directions, facts_of, like_llama
    from app.library import resolve
    from app.terminal.engine import CommandEngine
    from engine.gguf.control_vector import write_directions
    from engine.gguf.reader import open_gguf

    path = resolve(args.model)
    with open_gguf(path) as file:
        arch = file.metadata.architecture
    with CommandEngine(path, options) as engine:
        loaded = engine.start()
        if args.like_llama:
            pairs = _like_llama(engine, path, positive, negative)
            found = like_llama(pairs, args.method)
        else:
            ours, theirs = (
                rows_of(engine, texts, args.at, args.chat) for texts in (positive, negative)
            )
            found = directions(ours, theirs, args.method, args.raw)
    vectors = {i: one.values.astype("<f4") for i, one in found.items()}
    write_directions(args.out, vectors, arch, facts_of(found))
    rows: list[dict[str, Any]] = [
        {"layer": i, "residual_norm": one.norm, "gap": one.gap, "auc": one.auc}
        for i, one in found.items()
    ]
    if args.json:
        print_json({"model": loaded.name, "out": str(args.out), "layers": rows})
        return 0
    _print(rows)
    print(f"{args.out}; use it with --control-vector {args.out}:STRENGTH, and compare --random 1")
    return 0


def rows_of(
    engine: "CommandEngine", texts: Sequence[str], at: "At", chat: bool
) -> "Mapping[int, Floats]":
    """Compute what leaves each layer from 1 on, f64 [texts, E] by layer. Raises as
    `CommandEngine.send`.
    """
    from app.directions import request_of, stacked

    found = [_computed(engine, request_of(text, chat)).rows(at) for text in texts]
    return stacked(found, at)


def _computed(engine: "CommandEngine", request: DumpResults) -> "LayerRows":
    from app.directions import LayerRows

    rows = LayerRows()
    for reply in engine.send(replace(request, id=engine.worker.new_id())):
        if isinstance(reply, ResultPart):
            rows.take(reply)
    return rows


def _like_llama(
    engine: "CommandEngine", path: Path, positive: Sequence[str], negative: Sequence[str]
) -> "Sequence[tuple[Mapping[int, Floats], Mapping[int, Floats]]]":
    """Rows f64 [tokens, E] that left each layer, of each pair of texts, padded to one length."""
    from app.directions import padded, request_of
    from engine.gguf.reader import open_gguf
    from engine.tokenizer import load_tokenizer

    with open_gguf(path) as file:
        tokenizer = load_tokenizer(file.metadata)
    blank = tokenizer.encode(" ", add_special=False)[-1]
    found = []
    for texts in zip(positive, negative, strict=True):
        pair = padded(tokenizer.encode(texts[0]), tokenizer.encode(texts[1]), blank)
        ours, theirs = (_computed(engine, request_of("", False, ids)).whole() for ids in pair)
        found.append((ours, theirs))
    return found


def _print(rows: list[dict[str, Any]]) -> None:
    lines = [["layer", "residual norm", "gap", "AUC"]]
    for row in rows:
        gap, auc = (UNKNOWN if row[k] is None else f"{row[k]:.3f}" for k in ("gap", "auc"))
        lines.append([str(row["layer"]), f"{row['residual_norm']:.2f}", gap, auc])
    for line in table(lines):
        print(line)


def _lines(side: str, path: Path) -> Sequence[str]:
    """The texts of a file, without empty lines. Raises BadSetting."""
    from app.directions import lines_of

    try:
        with path.expanduser().open("rb") as file:
            data = file.read(MOST_TEXT + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        expected = f"a file that can be read ({error.strerror})"
        raise BadSetting(side, str(path), expected) from None
    except UnicodeDecodeError:
        raise BadSetting(side, str(path), "a file of UTF-8 text") from None
    if len(data) > MOST_TEXT:
        raise BadSetting(side, str(path), f"a file of at most {MOST_TEXT >> 20} MiB")
    found = lines_of(text)
    if not found:
        raise BadSetting(side, str(path), "at least one text, one a line")
    return found
