"""`cutaway embed`: texts as vectors, close where meanings are."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.files import output
from app.terminal.options import add_engine_options, add_server_options, engine_options, positive
from app.terminal.text import input_lines, print_json, table
from app.words import UNKNOWN
from engine.errors import BadSetting
from engine.protocol import Embed, Embedded, Loaded
from engine.settings import EngineOptions

if TYPE_CHECKING:
    from app.terminal.engine import CommandEngine

NAME = "embed"
HELP = "compute the embeddings of texts"
SHOWN = 4  # numbers of each, for people


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds this command's arguments."""
    parser.add_argument(
        "model", metavar="MODEL", nargs="?", help="path, stored name or org/repo[:quant]"
    )
    parser.add_argument(
        "--text",
        metavar="T",
        action="append",
        help="a text; repeatable (default: one text per line from standard input)",
    )
    parser.add_argument("--width", type=positive, metavar="N", help="keep the first N dimensions")
    parser.add_argument("--raw", action="store_true", help="do not normalise")
    parser.add_argument("--out", type=Path, metavar="X.npy", help="save as f32 [texts, width]")
    parser.add_argument("--json", action="store_true", help="print all numbers as JSON")
    add_server_options(parser)
    add_engine_options(parser)


def run(args: argparse.Namespace) -> int:
    """Prints a row a text. Raises BadSetting, ModelNotFound, RemoteError, WorkerDied."""
    options, texts = engine_options(args), args.text or input_lines()
    if args.out is not None and not args.out.absolute().parent.is_dir():
        raise BadSetting("--out", str(args.out), "a file in an existing folder")

    with _engine(args, options) as engine:
        loaded = engine.start()
        request = Embed(engine.new_id(), texts, args.width, not args.raw)
        found = engine.get(request)
    if args.out is not None:
        _store(found, args.out)
    if args.json:
        print_json(_as_json(loaded, found, texts))
    elif args.out is None:
        _print(found, texts)
    return 0


def _engine(args: argparse.Namespace, options: EngineOptions) -> "CommandEngine":
    """This machine's engine, or a server."""
    from app.terminal.server import server_named

    server = server_named(args, options, embeds=True)
    if server is not None:
        return server
    if args.model is None:
        raise BadSetting("MODEL", "", "a model's path or name, or --server URL")
    from app.library import resolve
    from app.terminal.engine import CommandEngine

    return CommandEngine(resolve(args.model), options, embeds=True)


def _store(found: Embedded, path: Path) -> None:
    import numpy as np

    with output(path) as file:  # given a name, NumPy would add its ending
        np.save(file, np.array(_rows(found), np.float32))


def _rows(found: Embedded) -> list[list[float]]:
    import numpy as np

    rows: list[list[float]] = (
        np.frombuffer(found.vectors, "<f4").reshape(len(found.n_tokens), found.width).tolist()
    )
    return rows


def _as_json(loaded: Loaded, found: Embedded, texts: list[str]) -> dict[str, Any]:
    each = zip(texts, found.n_tokens, _rows(found), strict=True)
    return {
        "model": loaded.name,
        "device": loaded.device,
        "width": found.width,
        "embeddings": [{"text": t, "tokens": n or None, "embedding": row} for t, n, row in each],
    }


def _print(found: Embedded, texts: list[str]) -> None:
    """A row a text: its first numbers, and how near it is to the first text."""
    rows = _rows(found)
    near = [_cosine(rows[0], row) for row in rows]
    each = zip(texts, found.n_tokens, near, rows, strict=True)
    lines = [
        [
            repr(text),
            str(n or UNKNOWN),
            f"{cosine:.3f}",
            " ".join(f"{x:+.4f}" for x in row[:SHOWN]) + " …",
        ]
        for text, n, cosine, row in each
    ]
    titles = ["text", "tokens", "like the first", f"{found.width} numbers"]
    print(*table([titles, *lines], left=(0, 3)), sep="\n")


def _begins(row: list[float]) -> str:
    return " ".join(f"{x:+.4f}" for x in row[:SHOWN]) + " …"


def _cosine(a: list[float], b: list[float]) -> float:
    import numpy as np

    lengths = float(np.linalg.norm(a)) * float(np.linalg.norm(b))
    return float(np.dot(a, b)) / lengths if lengths else 0.0
