"""The devices and drivers there are, and what came of trying them."""

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


class DeviceCheck(msgspec.Struct, frozen=True):
    """What came of one kernel on a device. `seconds` covers building and running it."""

    name: str
    seconds: float
    problem: str = ""


class DriverCheck(msgspec.Struct, frozen=True):
    """What came of a driver. `origin` is the package or folder that brought it; `advice` is the
    next step where there is a problem with it or with a device.
    """

    library: str
    origin: str
    devices: list[DeviceCheck] = []
    problem: str = ""
    advice: str = ""

    @property
    def works(self) -> bool:
        """Whether at least one device ran its kernel."""
        return any(not device.problem for device in self.devices)
