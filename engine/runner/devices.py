"""The devices that a model may use, opened: those a person names, or the best that there are."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from engine.backends.host.backend import HostBackend
from engine.backends.opencl.backend import OpenCLBackend, open_together
from engine.backends.opencl.drivers.device import Device, find_devices, open_device
from engine.device.backend import Backend
from engine.errors import BadSetting, DeviceError
from engine.memory.placement import Pins, parse_pins, spell
from engine.memory.pools import measure_pools
from engine.settings import ACTIVATION_BITS, EngineOptions

HOST = "host"


@dataclass(frozen=True)
class OpenedDevices:
    """`backends` by priority, the host last. Layers are fitted to the devices named in `fitted`;
    `rest` takes all others. `pins` are what `--place` says, in these names, as `spelled` has them.
    """

    backends: tuple[Backend, ...]
    fitted: tuple[str, ...]
    rest: str
    pins: Pins
    chosen: tuple[str, ...]
    spelled: Callable[[str], str]

    def ruled(self, place: str) -> "OpenedDevices | None":
        """The same devices under another rule; None where others would be open for that.

        Raises `BadSetting`.
        """
        pins = parse_pins(place).spelled(self.spelled)
        wanted = _named(self.chosen, pins)
        same = wanted == [b.name for b in self.backends if b.name in wanted]
        return replace(self, pins=pins) if same and len(wanted) == len(self.backends) - 1 else None

    def backend(self, name: str) -> Backend:
        """The opened backend of that name."""
        return next(b for b in self.backends if b.name == name)


def open_devices(options: EngineOptions, stack: ExitStack) -> OpenedDevices:
    """Open what the options name; without a name GPUs and the best CPU device, else the host.

    Limits are measured anew. Raises `BadSetting`, `DeviceError`.
    """
    if options.activations not in ACTIVATION_BITS:
        wanted = " or ".join(map(str, ACTIVATION_BITS))
        raise BadSetting("activations", options.activations, wanted)
    found = find_devices()
    gpus = [d.info.name for d in found if d.info.default and not d.info.traits.is_cpu]
    cpu = next((d.info.name for d in found if d.info.default and d.info.traits.is_cpu), None)

    def spelled(name: str) -> str:
        return spell(name, gpus, cpu)

    pins = parse_pins(options.place).spelled(spelled)
    _check_budgets(options, found)
    chosen = options.device.split(",") if options.device is not None else [*gpus, cpu or HOST]
    names = _named(chosen, pins)
    named = {*pins.devices, *(chosen if options.device is not None else ())}
    opened: dict[str, Backend] = {b.name: b for b in _open(names, named, options)}
    for backend in opened.values():
        stack.callback(backend.close)
    host = HostBackend(budget=options.budget.get(HOST))
    measure([*opened.values(), host])
    layered = [name for name in chosen if name in opened]
    if HOST in chosen or not layered:
        rest, fitted = HOST, layered
    else:
        cpus = {d.info.name for d in found if d.info.traits.is_cpu}
        rest = next((name for name in reversed(layered) if name in cpus), layered[-1])
        fitted = [name for name in layered if name != rest or (name not in cpus and layered[1:])]
    backends = (*opened.values(), host)
    return OpenedDevices(backends, tuple(fitted), rest, pins, tuple(chosen), spelled)


def _named(chosen: Sequence[str], pins: Pins) -> list[str]:
    """Devices to open: those for layers, then those that a rule names besides."""
    return [name for name in dict.fromkeys([*chosen, *pins.devices]) if name != HOST]


def _open(names: list[str], needed: set[str], options: EngineOptions) -> list[OpenCLBackend]:
    """In one context where they share a driver; those not `needed` may fail to open."""
    devices = [open_device(name) for name in names]
    devices = [d.limited(options.threads) if d.info.traits.is_cpu else d for d in devices]
    devices = [d.rounding(options.activations) for d in devices]
    budgets = {d.info.name: options.budget.get(d.info.name, d.info.memory) for d in devices}
    while True:
        try:
            return open_together(devices, budgets)
        except DeviceError as error:
            if error.device in needed:
                raise
            devices = [d for d in devices if d.info.name != error.device]


def measure(backends: Sequence[Backend]) -> None:
    """Set the limits of their pools anew, unless another thread is loading within them."""
    measure_pools({id(b.pool): b.pool for b in backends}.values())


def _check_budgets(options: EngineOptions, found: Sequence[Device]) -> None:
    known = [*(d.info.name for d in found), HOST]
    for name in options.budget:
        if name not in known:
            raise BadSetting("--budget", name, f"one of the devices {', '.join(known)}")
