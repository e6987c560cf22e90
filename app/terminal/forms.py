"""Options of commands for structured output."""

import argparse
from pathlib import Path

from engine.errors import BadSetting
from engine.protocol import AnswerForm, Grammar, JsonSchema, Regex

LONGEST = 1 << 18
"""Bytes of a file; the engine takes no longer ones."""


def add_form_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that form_of() reads."""
    group = parser.add_argument_group("structured output").add_mutually_exclusive_group()
    group.add_argument(
        "--json-schema", metavar="FILE", help="JSON schema file that the answer must match"
    )
    group.add_argument(
        "--grammar", metavar="FILE", help="grammar file (Lark, or GBNF with suffix .gbnf)"
    )
    group.add_argument(
        "--regex", metavar="REGEX", help="regular expression that the whole answer must match"
    )


def form_of(args: argparse.Namespace) -> AnswerForm | None:
    """The form, if one was named. Raises BadSetting for a file that cannot be read."""
    if args.json_schema is not None:
        return JsonSchema(_text("--json-schema", args.json_schema))
    if args.grammar is not None:
        is_gbnf = Path(args.grammar).suffix.lower() == ".gbnf"
        return Grammar(_text("--grammar", args.grammar), "gbnf" if is_gbnf else "lark")
    return None if args.regex is None else Regex(args.regex)


def _text(option: str, name: str) -> str:
    try:
        with Path(name).expanduser().open("rb") as file:
            data = file.read(LONGEST + 1)
        if len(data) > LONGEST:
            raise BadSetting(option, name, f"a file of at most {LONGEST} bytes")
        return data.decode("utf-8-sig")
    except OSError as error:
        raise BadSetting(option, name, f"a file that can be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise BadSetting(option, name, "a file of UTF-8 text") from None
