"""`cutaway report`: what this machine's devices are and do, in one file to attach to an issue."""

import argparse
from datetime import datetime
from pathlib import Path

from app.files import write_named
from app.report.contents import ReportWanted
from app.report.document import markdown, summary
from app.report.gather import gather
from app.terminal.engine import Interrupt
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
    parser.add_argument("--to", type=Path, metavar="FILE", help="output file (cutaway-report-….md)")


def run(args: argparse.Namespace) -> int:
    """Prints the summary and the file's name; status 0 where every check passed.

    Raises BadSetting for a device that is not there, CutawayError where the file cannot be written.
    """
    path = args.to or Path(f"cutaway-report-{datetime.now():%Y%m%d-%H%M%S}.md")
    if not path.absolute().parent.is_dir():
        raise BadSetting("--to", str(path), "a file in an existing folder")
    devices = tuple(filter(None, (args.device or "").split(",")))
    with Bar() as bar, Interrupt() as interrupt:
        report = gather(
            ReportWanted(devices, args.full, args.tune),
            lambda what, done, total: bar.update(what, done, total),
            lambda: interrupt.heard,
        )
    write_named(path, markdown(report).encode())
    print("\n".join(summary(report)))
    print(f"Report written to {path}. Attach it to your issue.")
    if report.stopped:
        note("stopped; the file has the results so far")
    failed = any(case.status == "failed" for device in report.devices for case in device.cases)
    return FAILED if failed or not report.devices else 0
