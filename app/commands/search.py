"""`cutaway search`: models on the Hugging Face Hub."""

import argparse
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, get_args

from app.terminal.text import note, plain, print_json, table
from app.words import UNKNOWN

if TYPE_CHECKING:
    from app.fetch.search import FoundRepo

NAME = "search"
HELP = "search Hugging Face for models"

UNITS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
DEFAULT_LIMIT = 20
MOST = 1000


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    from app.fetch.search import Sort, Task

    parser.add_argument("words", metavar="WORDS", nargs="*", help="words to search for")
    parser.add_argument(
        "--task", choices=get_args(Task), default="any", help="what the model is for"
    )
    parser.add_argument(
        "--largest", metavar="N", type=_parameters, help="most parameters, for example 8B or 500M"
    )
    parser.add_argument("--licence", metavar="NAME", help="for example apache-2.0")
    parser.add_argument(
        "--sort", choices=get_args(Sort), default="trending", help="order (default: trending)"
    )
    parser.add_argument(
        "--limit", metavar="N", type=_limit, default=DEFAULT_LIMIT, help="most rows (default: 20)"
    )
    parser.add_argument("--json", action="store_true", help="print the list as JSON")


def run(args: argparse.Namespace) -> int:
    """Prints the repositories. Raises HubError."""
    from app.fetch.search import Hub, SearchQuery

    words = " ".join(args.words)
    query = SearchQuery(words, args.task, args.largest, args.licence, args.sort)
    hub = Hub(waiting=_Countdown())
    found, following = hub.search(query)
    while following and len(found) < args.limit:
        more, following = hub.page(following)
        found += more
    found = found[: args.limit]
    if args.json:
        print_json([asdict(repo) for repo in found], indent=2)
    elif not found:
        print("No GGUF models match; try fewer words or filters.")
    else:
        rows = [_row(repo) for repo in found]
        head = ("repository", "size", "licence", "downloads")
        print("\n".join(table([head, *rows], left=(0, 2))))
        note(f"see what fits with `cutaway plan {found[0].repo}:QUANT`, before any download")
    return 0


def _row(repo: "FoundRepo") -> Sequence[str]:
    licence = repo.licence or UNKNOWN
    if repo.gated:
        licence += " (terms to accept)"
    return plain(repo.repo), _size(repo.parameters), plain(licence), f"{repo.downloads:,}"


def _size(parameters: int | None) -> str:
    """Parameters as people say them: 135M, 1.7B, 30B."""
    if parameters is None:
        return UNKNOWN
    unit, value = next(
        ((unit, value) for unit, value in reversed(UNITS.items()) if parameters >= value), ("", 1)
    )
    amount = parameters / value
    return f"{amount:.1f}{unit}" if amount < 10 and unit else f"{amount:.0f}{unit}"


class _Countdown:
    """A note when the Hub limits the rate, once for each wait."""

    def __init__(self) -> None:
        self._left = 0.0

    def __call__(self, seconds: float) -> None:
        if seconds > self._left:
            note(f"Hugging Face limits the rate; continuing in {seconds:.0f} s")
        self._left = seconds


def _parameters(text: str) -> int:
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)([KMBT]?)", text.upper(), re.ASCII)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of parameters like 8B or 500M")
    return round(float(found[1]) * UNITS[found[2]])


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= MOST):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MOST}")
    return int(text)
