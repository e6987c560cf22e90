"""The options shared by every command that starts an engine."""

import argparse
from collections.abc import Collection
from typing import Any

from engine.settings import MOST, OPTIONS, EngineOptions


def add_engine_options(parser: argparse.ArgumentParser, without: Collection[str] = ()) -> None:
    """Adds an argument for each of OPTIONS but some, which engine_options() reads."""
    group = parser.add_argument_group("engine")
    for name, option in OPTIONS.items():
        if name in without:
            continue
        group.add_argument(
            f"--{option.flag}",
            dest=name,
            action="append" if option.repeated else "store",
            metavar=option.metavar,
            help=option.help,
        )


def add_server_options(parser: argparse.ArgumentParser) -> None:
    """The options that name a server."""
    group = parser.add_argument_group("remote server")
    group.add_argument("--server", metavar="URL", help="use a model on this server (OpenAI API)")
    group.add_argument(
        "--model", dest="served", metavar="M", help="model id, if the server has several"
    )
    group.add_argument("--api-key", metavar="KEY", help="API key for the server (CUTAWAY_API_KEY)")
    group.add_argument(
        "--key-in-clear", action="store_true", help="send the key even over unencrypted http"
    )


def engine_options(args: argparse.Namespace, without: Collection[str] = ()) -> EngineOptions:
    """The group's values, of those that were added. Raises BadSetting."""
    values: dict[str, Any] = {}
    for name, option in OPTIONS.items():
        if name in without:
            continue
        given = getattr(args, name)
        if given is not None and option.repeated:
            values[name] = dict(option.read(text) for text in given)
        elif given is not None:
            values[name] = option.read(given)
    return EngineOptions(**values)


def positive(text: str) -> int:
    """An argparse type: a whole number from 1 up."""
    if count(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def count(text: str) -> int:
    """An argparse type: a whole number from 0 up."""
    if not text.isdecimal() or len(text) > 10 or int(text) > MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to {MOST}")
    return int(text)
