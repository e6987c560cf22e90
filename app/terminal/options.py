"""Options shared by the commands that start an engine, and sampling options over the model's
defaults.
"""

import argparse
from collections.abc import Collection
from typing import Any

import msgspec

from app.defaults import Suggested, suggested_for
from engine.protocol import Loaded, Sampling
from engine.settings import MOST, OPTIONS, EngineOptions


def add_engine_options(parser: argparse.ArgumentParser, without: Collection[str] = ()) -> None:
    """Adds an argument for each of OPTIONS but some, which engine_options() reads."""
    group = parser.add_argument_group("engine")
    for name, option in OPTIONS.items():
        if name in without:
            continue
        group.add_argument(
            f"--{option.flag}",
            *option.also,
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
        value = getattr(args, name)
        if value is not None and option.repeated:
            values[name] = {key: one for text in value for key, one in option.read(text).items()}
        elif value is not None:
            values[name] = option.read(value)
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


SAMPLING_OPTIONS = (
    ("--temp", "temperature", float, "temperature; 0 always picks the likeliest token"),
    ("--top-k", "top_k", count, "sample from the K likeliest tokens; 0 is off"),
    ("--top-p", "top_p", float, "sample from the likeliest tokens that add up to P; 1 is off"),
    ("--min-p", "min_p", float, "drop tokens less than P times as likely as the likeliest"),
    ("--repeat-penalty", "repeat_penalty", float, "repeat penalty on recent tokens; 1 is off"),
    ("--frequency-penalty", "frequency_penalty", float, "frequency penalty, per recent occurrence"),
    ("--presence-penalty", "presence_penalty", float, "presence penalty on recent tokens"),
)


def add_sampling_options(parser: argparse.ArgumentParser) -> None:
    """Add an argument for each field, and --no-suggested."""
    group = parser.add_argument_group("sampling", "Defaults suit the model; otherwise those in ().")
    for option, field, kind, text in SAMPLING_OPTIONS:
        help = f"{text} ({getattr(Sampling(), field):g})"
        group.add_argument(option, dest=field, type=kind, metavar="X", help=help)
    group.add_argument(
        "--no-suggested", action="store_true", help="use the defaults in () for any model"
    )


def chosen_values(args: argparse.Namespace) -> dict[str, Any]:
    """The fields that options set. Raises BadSetting for one out of range."""
    values = {field: getattr(args, field) for _, field, _, _ in SAMPLING_OPTIONS}
    chosen = {field: value for field, value in values.items() if value is not None}
    msgspec.structs.replace(Sampling(), **chosen).check()
    return chosen


def sampling_for(loaded: Loaded, args: argparse.Namespace) -> Suggested:
    """Return the model's suggested sampling, overridden by the options."""
    suits = Suggested() if args.no_suggested else suggested_for(loaded)
    return suits.over(chosen_values(args), "yours")
