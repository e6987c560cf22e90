"""`cutaway attend`: where the heads of a model look when it makes a word."""

import argparse
from typing import Any

from app.terminal.examined import add_arguments, examined, floats, quoted, words
from app.terminal.options import count
from app.terminal.text import print_json, table
from engine.errors import BadSetting
from engine.protocol import Attended, Examined, Loaded

NAME = "attend"
HELP = "show which tokens attention reads when a token is computed"
BAR = 24
MOST_ROWS = 40
LEVELS = "▁▂▃▄▅▆▇█"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    add_arguments(parser)
    parser.add_argument("--layer", type=count, metavar="L", help="one layer (default: mean of all)")
    parser.add_argument("--head", type=count, metavar="H", help="one head of that layer")
    parser.add_argument(
        "--rows",
        type=count,
        default=MOST_ROWS,
        metavar="N",
        help=f"print the N tokens with most attention, 0 for all ({MOST_ROWS})",
    )


def run(args: argparse.Namespace) -> int:
    """Prints a row a token of the context, then a row a layer.

    Raises BadSetting, ModelNotFound, RemoteError, WorkerDied.
    """
    from app.library import resolve

    if args.head is not None and args.layer is None:
        raise BadSetting("--head", args.head, "a --layer with it")
    wanted = [] if args.layer is None else [args.layer]
    loaded, found = examined(resolve(args.model), args, attention_layers=wanted)
    attended = found.attention
    assert attended is not None
    shares = chosen(attended, args.layer, args.head)
    if args.json:
        print_json(_rows(args, loaded, found, attended, shares))
        return 0
    _print_places(found, shares, args.rows)
    print()
    _print_layers(attended)
    return 0


def chosen(attended: Attended, layer: int | None, head: int | None) -> list[float]:
    """The share of each place: of all layers' mean, of a layer's, or of one head.

    Raises BadSetting for a layer that attends to no tokens, or a head that is not there.
    """
    if layer is None:
        return floats(attended.mean)
    if layer not in attended.rows:
        raise BadSetting("--layer", layer, "a layer with attention to tokens, not only to pictures")
    n, heads = attended.n_places, attended.n_head
    row = floats(attended.rows[layer])
    if head is not None:
        if head >= heads:
            raise BadSetting("--head", head, f"0 to {heads - 1}")
        return row[head * n :][:n]
    return [sum(row[place::n]) / heads for place in range(n)]


def _rows(
    args: argparse.Namespace,
    loaded: Loaded,
    found: Examined,
    attended: Attended,
    shares: list[float],
) -> dict[str, Any]:
    summaries = [_by_layer(attended, data) for data in _summaries(attended)]
    return {
        "model": loaded.name,
        "device": loaded.device,
        "at": found.n_context,
        "layer": args.layer,
        "head": args.head,
        "context": words(found.items)[: found.n_context],
        "attention": shares,
        "layers": [
            {"layer": layer, "entropy": entropy, "distance": distance, "first": first}
            for layer, entropy, distance, first in zip(attended.layers, *summaries, strict=True)
        ],
    }


def _summaries(attended: Attended) -> tuple[bytes, bytes, bytes]:
    return attended.entropy, attended.distance, attended.first


def _by_layer(attended: Attended, data: bytes) -> list[list[float]]:
    """[layers][heads]."""
    values, heads = floats(data), attended.n_head
    return [values[i * heads :][:heads] for i in range(len(attended.layers))]


def _print_places(found: Examined, shares: list[float], most: int) -> None:
    """Rows of a picture's view are one line, with their sum."""
    rows: list[tuple[str, str, float]] = []
    pictures = {rows.token: rows for rows in found.items.rows}
    texts, place = words(found.items), 0
    while place < found.n_context:
        seen = pictures.get(place)
        n = 1 if seen is None else min(seen.count, found.n_context - place)
        where = str(place) if n == 1 else f"{place}–{place + n - 1}"
        word = quoted(texts[place]) if seen is None else f"picture {seen.picture}"
        rows.append((where, word, sum(shares[place : place + n])))
        place += n
    shown = range(len(rows))
    if most and len(rows) > most:
        best = sorted(shown, key=lambda i: -rows[i][2])[:most]
        print(f"  the {most} of {len(rows)} with most attention")
        shown = sorted(best)  # type: ignore[assignment]
    largest = max(share for *_, share in rows) or 1.0
    lines = [
        (where, f"{share:.1%}", word, "█" * round(BAR * share / largest))
        for where, word, share in (rows[i] for i in shown)
    ]
    for line in table([("place", "share", "token", ""), *lines], left=(2, 3)):
        print(line)


def _print_layers(attended: Attended) -> None:
    """Means over heads, and a column a head for how widely it looks."""
    entropy, distance, first = (_by_layer(attended, data) for data in _summaries(attended))
    widest = max((max(row) for row in entropy), default=0.0) or 1.0
    lines = [("layer", "entropy", "tokens back", "on the first", "entropy by head")]
    for i, layer in enumerate(attended.layers):
        levels = (LEVELS[min(7, int(8 * value / widest))] for value in entropy[i])
        means = (sum(row[i]) / attended.n_head for row in (entropy, distance, first))
        spread, back, sink = means
        lines.append((str(layer), f"{spread:.2f}", f"{back:.1f}", f"{sink:.1%}", "".join(levels)))
    for line in table(lines, left=(4,)):
        print(line)
