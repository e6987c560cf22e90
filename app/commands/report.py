"""`cutaway report`: what this machine's devices are and do, in one file to attach to an issue."""

import argparse
from datetime import datetime
from pathlib import Path

from app.files import write_named
from app.report.contents import ReportWanted
from app.report.document import markdown, summary
from app.report.first_run import MINUTES, first_run, lines
from app.report.gather import gather
from app.terminal.engine import Interrupt
from app.terminal.options import positive
from app.terminal.progress import Bar
from app.terminal.text import note
from engine.errors import BadSetting

NAME = "report"
HELP = "write a report on this machine's devices to attach to an issue"
FAILED = 1


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument(
        "--device", metavar="NAME", help="a,b, as `devices` names them (one of each processor)"
    )
    parser.add_argument(
        "--full", action="store_true", help="complete self-test (some minutes more)"
    )
    parser.add_argument(
        "--tune", action="store_true", help="tune the kernels first and keep the settings"
    )
    parser.add_argument(
        "--first-run",
        action="store_true",
        help="try everything on a device that nobody has had, in steps; writes a folder",
    )
    parser.add_argument(
        "--minutes",
        type=positive,
        default=int(MINUTES),
        metavar="N",
        help="with --first-run: most minutes (10)",
    )
    parser.add_argument(
        "--to", type=Path, metavar="FILE", help="output file, or folder (cutaway-report-….md)"
    )


def run(args: argparse.Namespace) -> int:
    """Prints the summary and the file's name; status 0 where every check passed.

    Raises BadSetting for a device that is not there, CutawayError where the file cannot be written.
    """
    if args.first_run:
        return _first_run(args)
    path = args.to or Path(f"cutaway-report-{datetime.now():%Y%m%d-%H%M%S}.md")
    if not path.absolute().parent.is_dir():
        raise BadSetting("--to", str(path), "a file in an existing folder")
    devices = tuple(filter(None, (args.device or "").split(",")))
    with Bar() as bar, Interrupt() as interrupt:
        report = gather(
            ReportWanted(devices, args.full, args.tune),
            lambda what, done, total: bar.update(what, done, total),
            lambda: interrupt.interrupted,
        )
    write_named(path, markdown(report).encode())
    print("\n".join(summary(report)))
    print(f"Report written to {path}. Attach it to your issue.")
    if report.stopped:
        note("stopped; the file has the results so far")
    failed = any(case.status == "failed" for device in report.devices for case in device.cases)
    return FAILED if failed or not report.devices else 0


def _first_run(args: argparse.Namespace) -> int:
    """Print how each step ended, and where the files are; status 0 where none has a problem."""
    folder = args.to or Path(f"cutaway-first-run-{datetime.now():%Y%m%d-%H%M%S}")
    try:
        with Bar() as bar, Interrupt() as interrupt:
            run = first_run(
                folder,
                args.device or "",
                args.minutes,
                lambda what, done, total: bar.update(what, done, total),
                lambda: interrupt.interrupted,
            )
    except OSError as error:
        raise BadSetting("--to", str(folder), f"a folder ({error.strerror})") from None
    print("\n".join(lines(run)))
    print(f"Files written to {folder}. Attach all of it to your issue.")
    return FAILED if any(step.problem for step in run.steps) else 0
