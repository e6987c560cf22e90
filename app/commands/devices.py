"""`cutaway devices`: the devices there are, as `--device` spells them."""

import argparse

from app.checks.processes import list_devices
from app.terminal.text import print_json
from engine.protocol import DeviceRow
from engine.units import MIB

NAME = "devices"
HELP = "list the devices a model can run on"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("--json", action="store_true", help="print the list as JSON")


def run(args: argparse.Namespace) -> int:
    """Prints every device by priority, `host` last."""
    rows = list_devices()
    if args.json:
        print_json([_as_json(row) for row in rows], indent=2)
        return 0
    _print_table(rows)
    if not rows:
        print(
            "No OpenCL driver works: models run on host, slowly. Next: pip install 'cutaway[cpu]'"
        )
    return 0


def _as_json(row: DeviceRow) -> dict[str, object]:
    return {name: getattr(row, name) for name in DeviceRow.__struct_fields__}


def _print_table(rows: list[DeviceRow]) -> None:
    width = max([len("host"), *(len(row.id) for row in rows)])
    for row in rows:
        mark = "*" if row.is_default else " "
        print(
            f"{mark} {row.id:<{width}}  {row.memory / MIB:9.0f} MiB  {row.compute_units:4} units  "
            f"{row.name}, {row.driver}{'; ' + row.note if row.note else ''}"
        )
    print(f"{' ' if rows else '*'} {'host':<{width}}  the reference in NumPy, slow")
