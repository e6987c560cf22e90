"""`cutaway tune`: finds the numbers that a device's kernels are fastest with, and keeps them."""

import argparse
import time
from pathlib import Path

import msgspec

from app.checks.processes import choose_device, trials
from app.terminal.progress import Bar, remaining
from app.terminal.text import print_json
from engine.errors import BadSetting
from engine.protocol import TrialResult, Tune, TuneResult

NAME = "tune"
HELP = "find the fastest kernel settings for a device"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("--device", metavar="NAME", help="as `devices` names it (the best one)")
    parser.add_argument(
        "--family", default="", metavar="NAME", help="only decode, prefill, attention or rows"
    )
    parser.add_argument(
        "--to", default="", metavar="FOLDER", help="write to this folder instead of the cache"
    )
    parser.add_argument("--json", action="store_true", help="print every trial as JSON")


def run(args: argparse.Namespace) -> int:
    """Prints every trial, and where the result is. Raises `BadSetting`, `DeviceError`."""
    if args.to and not Path(args.to).is_dir():
        raise BadSetting("--to", args.to, "an existing folder")
    device = choose_device(args.device)
    results: list[TrialResult] = []
    kept = None
    start = time.monotonic()
    with Bar() as bar:
        for total, news in trials(Tune(device.id, args.family, args.to)):
            if isinstance(news, TuneResult):
                kept = news
                continue
            results.append(news)
            if not args.json:
                bar.clear()
                print(_line(news), flush=True)
            bar.update(device.id, len(results), total, remaining(start, len(results), total))
    assert kept is not None
    if args.json:
        print_json({"trials": msgspec.to_builtins(results)} | msgspec.to_builtins(kept))
        return 0
    gains = ", ".join(f"{name} {gain:.2f}" for name, gain in kept.gains.items())
    print(f"{device.id}, times as fast as with the default: {gains}")
    print(f"Saved in {kept.path}; delete it to restore the defaults.")
    return 0


def _line(trial: TrialResult) -> str:
    values = ", ".join(f"{name} {value}" for name, value in trial.values.items())
    mark = "  the best so far" if trial.better else ""
    speed = f"{trial.speed:8.1f} {trial.unit:<7}"
    return f"{trial.family:<10} {values:<24} {speed} {trial.gain:5.2f} times{mark}"
