"""The devices there are."""

from engine.errors import BadSetting
from engine.protocol import DeviceRow, ListDevices
from engine.worker import Worker


def list_devices() -> list[DeviceRow]:
    """List the devices that a worker finds. Raises `WorkerDied` where a driver takes it down."""
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
    there = ", ".join(row.id for row in rows) or "none: pip install 'cutaway[cpu]' installs one"
    raise BadSetting("--device", name or "", f"an OpenCL device; there is {there}")
