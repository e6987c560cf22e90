"""`cutaway devices`: the devices there are, as `--device` spells them."""

import argparse

from app.terminal.text import print_json
from engine.errors import BadSetting
from engine.protocol import DeviceRow, ListDevices
from engine.units import MIB
from engine.worker import Worker

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


def list_devices() -> list[DeviceRow]:
    """What a worker finds. Raises `WorkerDied` where a driver takes it down."""
    with Worker() as worker:
        return worker.get(ListDevices(worker.new_id())).devices


def choose_device(name: str | None) -> DeviceRow:
    """The OpenCL device of that name, or the best. Raises `BadSetting`, `WorkerDied`."""
    rows = list_devices()
    for row in rows:
        if row.id == name or (name is None and row.is_default):
            return row
    if name is None and rows:
        return rows[0]
    there = ", ".join(row.id for row in rows) or "none: pip install 'cutaway[cpu]' brings one"
    raise BadSetting("--device", name or "", f"an OpenCL device; there is {there}")


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
