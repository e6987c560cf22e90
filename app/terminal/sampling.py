"""Sampling options of the terminal: laid over what suits the model."""

import argparse
from typing import Any

import msgspec

from app.defaults import Suggested, suggested_for
from app.terminal.options import count
from engine.protocol import Loaded, Sampling

OPTIONS = (
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
    for option, field, kind, text in OPTIONS:
        help = f"{text} ({getattr(Sampling(), field):g})"
        group.add_argument(option, dest=field, type=kind, metavar="X", help=help)
    group.add_argument(
        "--no-suggested", action="store_true", help="use the defaults in () for any model"
    )


def chosen_values(args: argparse.Namespace) -> dict[str, Any]:
    """The fields that options set. Raises BadSetting for one out of range."""
    values = {field: getattr(args, field) for _, field, _, _ in OPTIONS}
    chosen = {field: value for field, value in values.items() if value is not None}
    msgspec.structs.replace(Sampling(), **chosen).check()
    return chosen


def sampling_for(loaded: Loaded, args: argparse.Namespace) -> Suggested:
    """Return the model's suggested sampling, overridden by the options."""
    suits = Suggested() if args.no_suggested else suggested_for(loaded)
    return suits.over(chosen_values(args), "yours")
