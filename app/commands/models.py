"""`cutaway models`: the models on this disk."""

import argparse

from app.library import Stored, known_names, list_models
from app.terminal.text import plain, print_json
from engine.settings import model_folders

NAME = "models"
HELP = "list the models on this disk"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("--json", action="store_true", help="print the list as JSON")


def run(args: argparse.Namespace) -> int:
    """Prints our own models and those of other programs."""
    stored = list_models()
    if args.json:
        print_json([_as_json(model) for model in stored], indent=2)
    elif stored:
        _print_table(stored)
    else:
        folders = ", ".join(str(folder) for folder in model_folders())
        print(f"No models in {folders} or other programs' folders{known_names()}.")
    return 0


def _as_json(model: Stored) -> dict[str, object]:
    return {
        "name": model.name,
        "paths": [str(path) for path in model.paths],
        "size": model.size,
        "origin": model.origin,
        "projector": model.is_projector,
        "adapter": model.is_adapter,
        "adapts": model.adapts,
        "projector_path": str(model.projector) if model.projector else None,
        "projector_problem": model.mismatch,
        "architecture": model.architecture,
        "quantization": model.quantization,
        "ranks": model.ranks,
        "problem": model.problem,
    }


def _print_table(stored: list[Stored]) -> None:
    width = max(len(plain(model.name)) for model in stored)
    for model in stored:
        kind = f"{model.architecture or '?'} {model.quantization or '?'}"
        notes: list[str] = [model.origin]
        notes += [f"{len(model.paths)} files"] if len(model.paths) > 1 else []
        notes += ["reranker"] if model.ranks else []
        notes += ["image projector"] if model.is_projector else []
        notes += [f"LoRA adapter for {model.adapts or model.architecture}"] * model.is_adapter
        notes += ["with projector"] if model.projector else []
        notes += [f"no pictures: {model.mismatch}"] if model.mismatch else []
        notes += [f"problem: {model.problem}"] if model.problem else []
        name, kind, rest = plain(model.name), plain(kind), plain(", ".join(notes))
        print(f"{name:<{width}}  {model.size / 1e6:9.1f} MB  {kind:<16} {rest}")
