"""`cutaway tokenize`: a text as the token ids of a model."""

import argparse
from pathlib import Path

from app.terminal.text import bounded, print_json
from engine.errors import TokenizerError

NAME = "tokenize"
HELP = "show the tokens of a text"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds this command's arguments."""
    parser.add_argument("model", metavar="MODEL", help="path, stored name or org/repo[:quant]")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--text", metavar="T", help="the text")
    source.add_argument("--text-file", metavar="F", type=Path, help="a file of UTF-8 text")
    parser.add_argument("--no-bos", action="store_true", help="do not add BOS and EOS")
    parser.add_argument(
        "--no-parse-special",
        action="store_true",
        help="do not parse control tokens in the text",
    )
    parser.add_argument("--json", action="store_true", help="print a list of ids as JSON")


def run(args: argparse.Namespace) -> int:
    """Prints the tokens.

    Raises TokenizerError for a file that is not UTF-8, BadFile or UnsupportedModel for a model
    whose vocabulary cannot be used, and ModelNotFound for a name that leads nowhere.
    """
    from app.library import resolve
    from engine.gguf.reader import open_gguf
    from engine.tokenizer import load_tokenizer

    text = args.text if args.text_file is None else _read(args.text_file)
    with open_gguf(resolve(args.model)) as file:
        tokenizer = load_tokenizer(file.metadata)
    ids = tokenizer.encode(
        text, add_special=not args.no_bos, parse_special=not args.no_parse_special
    )
    if args.json:
        print_json(ids)
        return 0
    for token in ids:
        shown = tokenizer.piece(token, special=True).decode("utf-8", "backslashreplace")
        print(f"{token:>8}  {shown!r}")
    print(f"{len(ids)} tokens")
    return 0


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return bounded(file, "--text-file").decode("utf-8")
    except UnicodeDecodeError as error:
        raise TokenizerError(f"{path}: byte {error.start} is not UTF-8 text") from None
