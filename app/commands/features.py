"""`cutaway features`: which features of a sparse autoencoder are active at each token."""

import argparse
from pathlib import Path
from typing import Any

from app.terminal.examined import quoted
from app.terminal.options import add_engine_options, engine_options, positive
from app.terminal.text import note, plain, print_json, table
from engine.protocol import ChatMessage, ComparedText, FeaturesFound, FindFeatures

NAME = "features"
HELP = "list the active features of a sparse autoencoder (Gemma Scope, SAELens) at each token"
SHOWN = 3


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("model", metavar="MODEL", help="path, stored name or org/repo[:quant]")
    parser.add_argument(
        "--sae", required=True, metavar="DIR", help="folder with the weights and their config"
    )
    parser.add_argument("-p", "--prompt", required=True, metavar="TEXT", help="the text")
    parser.add_argument("--chat", action="store_true", help="apply the chat template to TEXT")
    parser.add_argument(
        "--site", default="", metavar="RESULT-LAYER", help="the result it reads, as residual-20"
    )
    parser.add_argument(
        "--names", default="", metavar="DIR", help="folder of explanations (Neuronpedia's export)"
    )
    parser.add_argument(
        "--top", type=positive, default=10, metavar="N", help="features to list for a token (10)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_engine_options(parser)


def run(args: argparse.Namespace) -> int:
    """Prints a row a token. Raises BadSetting, ModelNotFound, RemoteError, WorkerDied."""
    options = engine_options(args)
    from app.library import resolve
    from app.terminal.engine import CommandEngine

    messages = [ChatMessage("user", args.prompt)] if args.chat else []
    text = ComparedText(messages, None if args.chat else args.prompt)
    paths = [
        str(Path(one).expanduser().absolute()) if one else "" for one in (args.sae, args.names)
    ]
    with CommandEngine(resolve(args.model), options) as engine:
        engine.start()
        request = FindFeatures(engine.new_id(), paths[0], text, args.top, args.site, paths[1])
        found = engine.get(request)
    for one in found.notes:
        note(one)
    if args.json:
        print_json(as_json(found))
        return 0
    head = f"{found.kind} of {found.n_features:,} features at {found.site}"
    print(f"{head}: {found.l0:.1f} active, explained variance {found.explained:.3f}")
    rows = [["token", "features with their activations, the strongest first"]]
    for token, features in zip(found.tokens, found.features, strict=True):
        cells = (
            f"{one.index} {one.activation:.1f} {plain(found.names.get(one.index, ''))}".strip()
            for one in features[:SHOWN]
        )
        rows.append([quoted(token), "; ".join(cells)])
    for line in table(rows, left=(0, 1)):
        print(line)
    return 0


def as_json(found: FeaturesFound) -> dict[str, Any]:
    """For programs: each token's features with names."""
    return {
        "model": found.name,
        "device": found.device,
        "kind": found.kind,
        "site": found.site,
        "n_features": found.n_features,
        "l0": found.l0,
        "explained": found.explained,
        "notes": found.notes,
        "tokens": [
            {
                "text": token,
                "features": [
                    {
                        "index": one.index,
                        "activation": one.activation,
                        "name": found.names.get(one.index, ""),
                    }
                    for one in features
                ],
            }
            for token, features in zip(found.tokens, found.features, strict=True)
        ],
    }
