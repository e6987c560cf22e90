"""`cutaway rerank`: texts by how well they fit a query, the best first."""

import argparse
from pathlib import Path
from typing import Any

from app.terminal.options import add_engine_options, engine_options, positive
from app.terminal.text import input_lines, print_json, read_text, table
from engine.protocol import Loaded, Rank, Ranked

NAME = "rerank"
HELP = "sort texts by how well they fit a query"
STDIN = "-"
BEGINS = 60  # characters of a text, for people


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds this command's arguments."""
    parser.add_argument("model", metavar="MODEL", help="path, stored name or org/repo[:quant]")
    parser.add_argument("query", metavar="QUERY", help="what the texts are to fit")
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        help="a text file each; without one, or for -: a text per line of standard input",
    )
    parser.add_argument("--text", metavar="T", action="append", help="a text; repeatable")
    parser.add_argument("--top", type=positive, metavar="N", help="print the best N only")
    parser.add_argument("--json", action="store_true", help="print whole texts and scores as JSON")
    add_engine_options(parser)


def run(args: argparse.Namespace) -> int:
    """Prints a row a text. Raises BadSetting, ModelNotFound, RemoteError, WorkerDied."""
    from app.library import resolve
    from app.terminal.engine import CommandEngine

    options, texts = engine_options(args), _texts(args.files, args.text or [])
    with CommandEngine(resolve(args.model), options, embeds=True) as engine:
        loaded = engine.start()
        found = engine.get(Rank(engine.new_id(), args.query, [text for _, text in texts]))
    best = found.best(args.top)
    if args.json:
        print_json(_as_json(loaded, args.query, found, texts, best))
    else:
        _print(found, texts, best)
    return 0


def _texts(files: list[str], passed: list[str]) -> list[tuple[str, str]]:
    """The texts, each after the file it came from; "" for none. Raises BadSetting."""
    texts = [("", text) for text in passed]
    for name in files or ([] if passed else [STDIN]):
        if name == STDIN:
            texts += [("", line) for line in input_lines()]
        else:
            texts.append((name, read_text("FILE", Path(name))))
    return texts


def _as_json(
    loaded: Loaded, query: str, found: Ranked, texts: list[tuple[str, str]], best: list[int]
) -> dict[str, Any]:
    results = []
    for i in best:
        file, text = texts[i]
        row = {"index": i, "score": found.scores[i], "tokens": found.n_tokens[i], "text": text}
        results.append(row | ({"file": file} if file else {}))
    return {"model": loaded.name, "device": loaded.device, "query": query, "results": results}


def _print(found: Ranked, texts: list[tuple[str, str]], best: list[int]) -> None:
    rows = [["score", "tokens", "text"]]
    for i in best:
        file, text = texts[i]
        begin = text if len(text) <= BEGINS else f"{text[:BEGINS]}…"
        rows.append([f"{found.scores[i]:.4f}", str(found.n_tokens[i]), file or repr(begin)])
    print(*table(rows, left=(2,)), sep="\n")
