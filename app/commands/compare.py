"""`cutaway compare`: every result of a step against the host, or of one text against another."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from app.terminal.examined import as_json, text_lines
from app.terminal.options import add_engine_options, engine_options
from app.terminal.text import print_json, table
from engine.protocol import (
    Compare,
    Compared,
    ComparedResult,
    ComparedText,
    CompareTexts,
    Request,
    TextsCompared,
)

NAME = "compare"
HELP = "compare a device with the host, or two texts, operation by operation"
TEXT = "The capital of France is Paris. What do people eat there, and what do they read on Sundays?"
OWN = ("device",)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("model", metavar="MODEL", help="path, stored name or org/repo[:quant]")
    parser.add_argument(
        "-p", "--prompt", metavar="TEXT", default=TEXT, help="the text (a short one)"
    )
    parser.add_argument(
        "--against",
        metavar="TEXT",
        help="compare with this text on the same device, instead of with the host",
    )
    parser.add_argument(
        "--device",
        action="append",
        metavar="NAME",
        help="devices to use, a,b; each that is named is compared, one after the other; repeatable",
    )
    parser.add_argument("--all", action="store_true", help="print every result, not only the worst")
    parser.add_argument("--json", action="store_true", help="print all results as JSON")
    add_engine_options(parser, without=OWN)


def run(args: argparse.Namespace) -> int:
    """Prints what deviates, or the nearest to it. Returns 1 where something deviates from the host;
    two texts may differ.

    Raises BadSetting, ModelNotFound, RemoteError, WorkerDied.
    """
    from app.library import resolve
    from app.terminal.engine import CommandEngine

    path, options = resolve(args.model), engine_options(args, without=OWN)
    compared_on: dict[str, Compared | TextsCompared] = {}
    for device in dict.fromkeys(args.device or [None]):
        with CommandEngine(path, replace(options, device=device)) as engine:
            loaded = engine.start()
            compared: Compared | TextsCompared = engine.get(_request(engine.worker.new_id(), args))
        compared_on[device or loaded.device] = compared
        if not args.json:
            for line in _report(device or loaded.device, compared, args.all):
                print(line)
    if args.json:
        print_json({name: as_json(one) for name, one in compared_on.items()})
    return int(
        any(isinstance(one, Compared) and one.first is not None for one in compared_on.values())
    )


def _request(number: int, args: argparse.Namespace) -> Request[Any]:
    if args.against is None:
        return Compare(number, prompt=args.prompt)
    text, other = (ComparedText(prompt=text) for text in (args.prompt, args.against))
    return CompareTexts(number, text, other)


def _report(device: str, compared: Compared | TextsCompared, everything: bool) -> Iterator[str]:
    if isinstance(compared, TextsCompared):
        return text_lines(device, compared, everything)
    return _lines(device, compared, everything)


def _lines(device: str, compared: Compared, everything: bool) -> Iterator[str]:
    rows = compared.rows
    yield f"{device}: {len(rows)} results of {compared.n_tokens} tokens and of one more"
    if everything:
        yield from table([TITLES, *map(_cells, rows)], left=(0, 1, 4))
    if compared.first is None:
        nearest = max(rows, key=lambda row: row.error / row.most)
        yield f"  none deviates from the host; the nearest to it is {_row_text(nearest)}"
    else:
        wrong = sum(bool(row.problem) for row in rows)
        yield f"  first mismatch: {_row_text(rows[compared.first])}; {wrong} in all"


TITLES = ("step", "result", "NMSE", "at most", "launches")


def _cells(row: ComparedResult) -> Sequence[str]:
    mark = " !" if row.problem else ""
    launches = f"{row.device}: {', '.join(row.launches)}{mark}"
    return row.phase, _name(row), f"{row.error:.1e}", f"{row.most:.1e}", launches


def _name(row: ComparedResult) -> str:
    return f"{row.name}#{row.occurrence}" if row.occurrence else row.name


def _row_text(row: ComparedResult) -> str:
    made = f"{', '.join(row.ops)} as {', '.join(row.launches)} on {row.device}"
    error = row.problem or f"NMSE {row.error:.1e}, at most {row.most:.1e}"
    return f"{_name(row)} of {row.phase}: {error} ({made})"
