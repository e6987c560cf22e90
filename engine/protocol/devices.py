"""The devices and drivers there are, and what came of trying them."""

from typing import Any, ClassVar

import msgspec

from engine.protocol.message import Reply, Request


class DeviceRow(msgspec.Struct, frozen=True):
    """A device as people see it."""

    id: str
    name: str
    vendor: str
    driver: str
    memory: int
    compute_units: int
    is_default: bool
    note: str = ""


class Devices(Reply, frozen=True):
    """Every device, by priority."""

    devices: list[DeviceRow]


class ListDevices(Request[Devices], frozen=True):
    """Every device there is."""

    between: ClassVar[bool] = True


class DeviceCheck(msgspec.Struct, frozen=True):
    """Result of one kernel on a device. `seconds` covers building and running it; `tried` says
    which of a GPU's own instructions are used, and why others are not.
    """

    name: str
    seconds: float
    problem: str = ""
    tried: str = ""


class DriverCheck(msgspec.Struct, frozen=True):
    """Result of a driver's check. `origin` is the package or folder that brought it; `advice` is
    the next step where there is a problem with it or with a device.
    """

    library: str
    origin: str
    devices: list[DeviceCheck] = []
    problem: str = ""
    advice: str = ""

    @property
    def works(self) -> bool:
        """True if at least one device ran its kernel."""
        return any(not device.problem for device in self.devices)


class DeviceProperties(msgspec.Struct, frozen=True):
    """A driver's properties of a device, under `clGetDeviceInfo`'s names without CL_DEVICE; the
    version of its platform; what launches depend on, the numbers they are made with and the file
    these have; of a plain kernel, the preferred multiple of a work-group's size.
    """

    device: str
    values: dict[str, Any]
    platform: str
    traits: dict[str, Any]
    tuned: dict[str, int]
    tuning: str
    group_multiple: int
