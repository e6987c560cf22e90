"""Properties of a driver's device, and how fast that device reads and computes.

`python -m engine.backends.opencl.properties DEVICE` prints `DeviceProperties` and then `DeviceRoof`
as a line of JSON each. A process of its own, so that a driver which crashes takes nobody with it.
"""

import sys
from dataclasses import asdict
from typing import Any

import msgspec

from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.drivers.device import Device, open_device
from engine.backends.opencl.drivers.loader import cl
from engine.errors import NoMem
from engine.protocol import DeviceProperties, DeviceRoof

# Handles and counters of this process, and lists that stand under another name as well.
LEFT_OUT = ("PLATFORM", "PARENT_DEVICE", "REFERENCE_COUNT", "EXTENSIONS_WITH_VERSION")
FLAGS = {
    "TYPE": cl.device_type,
    "SINGLE_FP_CONFIG": cl.device_fp_config,
    "DOUBLE_FP_CONFIG": cl.device_fp_config,
    "HALF_FP_CONFIG": cl.device_fp_config,
    "EXECUTION_CAPABILITIES": cl.device_exec_capabilities,
    "GLOBAL_MEM_CACHE_TYPE": cl.device_mem_cache_type,
    "LOCAL_MEM_TYPE": cl.device_local_mem_type,
}
PROBE = "__kernel void probe(__global float *x) { x[get_global_id(0)] += 1.0f; }"


def properties(device: Device) -> DeviceProperties:
    """All that `clGetDeviceInfo` answers; what a driver does not know is left out."""
    values = {name: _value(device.handle, name) for name in _names()}
    traits = {name: value for name, value in asdict(device.info.traits).items() if name != "tuned"}
    return DeviceProperties(
        device=device.info.name,
        values={name: value for name, value in values.items() if value is not None},
        platform=device.handle.platform.version.strip(),
        traits=traits,
        tuned=msgspec.structs.asdict(device.info.traits.tuned),
        tuning=device.info.tuning,
        group_multiple=_group_multiple(device),
    )


def _names() -> list[str]:
    return [n for n in dir(cl.device_info) if n[0].isupper() and n not in LEFT_OUT]


def _value(handle: cl.Device, name: str) -> Any:
    try:
        value: Any = handle.get_info(getattr(cl.device_info, name))
    except (cl.Error, RuntimeError, TypeError, ValueError):
        return None
    if name in FLAGS:
        return " ".join(_flags(FLAGS[name], value))
    if isinstance(value, (bool, int, float, str)):
        return value.strip() if isinstance(value, str) else value
    if isinstance(value, (list, tuple)):
        return [_entry(one) for one in value]
    return str(value)


def _entry(value: Any) -> Any:
    if isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "name") and hasattr(value, "version"):
        version = int(value.version)
        return f"{value.name} {version >> 22}.{version >> 12 & 0x3FF}.{version & 0xFFF}"
    return str(value)


def _flags(kinds: Any, value: int) -> list[str]:
    """The names of the bits that are set, or of the one value."""
    names = [n for n in dir(kinds) if n.isupper() and n != "ALL"]
    alone = [n for n in names if getattr(kinds, n) == value]
    return alone or [n for n in names if getattr(kinds, n) & value]


def _group_multiple(device: Device) -> int:
    """The preferred multiple of a plain kernel: the width in which the device runs work-items."""
    context = cl.Context([device.handle])
    kernel = cl.Program(context, PROBE).build().probe
    what = cl.kernel_work_group_info.PREFERRED_WORK_GROUP_SIZE_MULTIPLE
    return int(kernel.get_work_group_info(what, device.handle))


def main(name: str) -> None:
    """Print what it says, then what it does."""
    device = open_device(name)
    _print(properties(device))
    backend = OpenCLBackend(device)
    try:
        roof = backend.roof()
    except NoMem:
        roof = None
    if roof is not None:
        _print(DeviceRoof(name, roof.bytes_per_s, roof.flops_per_s))
    backend.close()


def _print(result: DeviceProperties | DeviceRoof) -> None:
    print(msgspec.json.encode(result).decode(), flush=True)  # noqa: T201  the child's answer


if __name__ == "__main__":
    main(sys.argv[1])
