"""`cutaway lens`: what each layer of a model would say, and how the word that comes climbs."""

import argparse
from math import exp
from pathlib import Path
from typing import Any

from app.terminal.examined import add_arguments, examined, floats, ints, quoted, words
from app.terminal.options import positive
from app.terminal.text import print_json, table
from engine.protocol import Examined, Lens, Loaded

NAME = "lens"
HELP = "show what each layer would predict (logit lens)"
SHOWN = 4  # of the likeliest tokens, in a line


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    add_arguments(parser)
    parser.add_argument(
        "--lens",
        metavar="FILE",
        help="read layers with this lens: Jacobian or tuned (safetensors, NPZ)",
    )
    parser.add_argument(
        "--top-k", type=positive, default=8, metavar="K", help="tokens to list for each layer (8)"
    )


def run(args: argparse.Namespace) -> int:
    """Prints a row a layer. Raises BadSetting, ModelNotFound, RemoteError, WorkerDied."""
    from app.library import resolve

    path = str(Path(args.lens).expanduser().absolute()) if args.lens else ""
    loaded, found = examined(resolve(args.model), args, lens=True, top_k=args.top_k, lens_file=path)
    assert found.lens is not None
    rows = layers(found.lens)
    if args.json:
        print_json(_rows(loaded, found, found.lens, rows))
    else:
        _print(found, found.lens, rows)
    return 0


def layers(lens: Lens) -> list[dict[str, Any]]:
    """A row a layer, as in JSON."""
    n = len(lens.layers)
    ids, logp = ints(lens.ids), floats(lens.logp)
    k = len(ids) // n
    columns = zip(
        lens.layers, ints(lens.rank), floats(lens.wanted_logp), floats(lens.entropy), strict=True
    )
    return [
        {
            "layer": layer,
            "rank": rank,
            "logprob": logprob,
            "entropy": entropy,
            "top": [
                {"id": i, "text": lens.texts[i], "logprob": p}
                for i, p in zip(ids[row * k :][:k], logp[row * k :][:k], strict=True)
            ],
        }
        for row, (layer, rank, logprob, entropy) in enumerate(columns)
    ]


def _rows(
    loaded: Loaded, found: Examined, lens: Lens, rows: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "model": loaded.name,
        "device": loaded.device,
        "at": found.n_context,
        "context": words(found.items)[: found.n_context],
        "token": {"id": lens.wanted, "text": lens.texts[lens.wanted]},
        "lens": {"kind": lens.kind, "layers": lens.layers, "n_prompts": lens.n_prompts},
        "layers": rows,
    }


def _print(found: Examined, lens: Lens, rows: list[dict[str, Any]]) -> None:
    word = quoted(lens.texts[lens.wanted])
    lines = [["layer", "rank", "probability", "entropy", "likeliest"]]
    for row in rows:
        best = (f"{quoted(one['text'])} {exp(one['logprob']):.1%}" for one in row["top"][:SHOWN])
        rank, entropy = f"{row['rank']:,}", f"{row['entropy']:.2f}"
        chance = percent(exp(row["logprob"]))
        lines.append([str(row["layer"]), rank, chance, entropy, "  ".join(best)])
    before = "".join(words(found.items)[max(0, found.n_context - SHOWN) : found.n_context])
    print(f"token {found.n_context}, after {quoted(before)}: {word}")
    for line in table(lines, left=(4,)):
        print(line)
    print(_leads(rows, word))


def percent(chance: float) -> str:
    """Never 0 for what can come."""
    return f"{chance:.2%}" if chance >= 1e-4 or not chance else "<0.01%"


def _leads(rows: list[dict[str, Any]], word: str) -> str:
    """From where on the word is first."""
    last = next((row["layer"] for row in reversed(rows) if row["rank"] != 1), None)
    if last == rows[-1]["layer"]:
        return f"{word} is not on top in the last layer"
    first = (
        rows[0]["layer"]
        if last is None
        else next(row["layer"] for row in rows if row["layer"] > last)
    )
    return f"{word} is on top from layer {first} on"
