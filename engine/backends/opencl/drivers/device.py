"""The devices there are: how each is spelled, which stands for its processor, what it can do."""

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from engine.backends.opencl.drivers.loader import cl, platforms
from engine.backends.opencl.drivers.trials import (
    Trial,
    dot4_trials,
    halves_trials,
    matrix_trials,
    summary,
    used,
)
from engine.backends.opencl.drivers.unknown_cpu import can_be_renamed, flags, name_unknown_cpu
from engine.backends.opencl.drivers.vectors import limit
from engine.backends.opencl.launch import HALVES, DeviceTraits
from engine.backends.opencl.tuned import key_of, tuned_for
from engine.device.backend import MemoryPool
from engine.errors import BadSetting, DeviceError
from engine.memory.pools import SYSTEM, device_pool, system_pool
from engine.protocol import DeviceRow
from engine.settings import LANES, ActivationBits

INSTALL = "pip install 'cutaway[cpu]'"
LEAST_ALIGNMENT = 128
INTEL_PARTS = 16
"""Vector engines of one of Intel's Xe cores."""

SLOW_LAUNCHES = "pocl:"
DEVICE_FAMILIES = (
    (r"portable computing language", "pocl"),
    (r"nvidia", "nvidia"),
    (r"amd accelerated", "amd"),
    (r"intel.*(graphics|arc)", "intel-gpu"),
    (r"intel", "intel"),
)
# Drivers made for any processor: they stand back where its vendor's own driver is there too.
GENERIC = ("pocl", "rusticl", "clover", "oclgrind")


@dataclass(frozen=True)
class DeviceInfo:
    """Facts about a device. Sizes are bytes; `extensions` as the driver lists them.

    `pool` is shared by devices that use the same memory. `default` marks the one device that
    stands for its processor; `same_as` names it for the others. `problem` says why a device is
    there but cannot be used, with the next step. `tried` are the instructions of its vendor that a
    GPU was tried for.
    """

    name: str
    title: str
    vendor: str
    platform: str
    driver_version: str
    memory: int
    max_allocation: int
    alignment: int
    pool: str
    extensions: tuple[str, ...]
    traits: DeviceTraits
    default: bool = False
    same_as: str = ""
    problem: str = ""
    tried: tuple[Trial, ...] = ()

    @property
    def tuning(self) -> str:
        """The name of its file of tuned numbers."""
        return _tuning(self.name, self.title, self.traits.is_cpu, self.traits.vector_ints)

    def row(self) -> DeviceRow:
        """The device as a row of the protocol."""
        return DeviceRow(
            id=self.name,
            name=self.title,
            vendor=self.vendor,
            driver=f"{self.platform} {self.driver_version}",
            memory=self.memory,
            compute_units=self.traits.compute_units,
            is_default=self.default,
            note=self.problem
            or (f"the same processor as {self.same_as}" if self.same_as else summary(self.tried)),
        )


@dataclass(frozen=True)
class Device:
    """A device and the driver's handle of it."""

    info: DeviceInfo
    handle: cl.Device

    @cache  # noqa: B019  a part is the same one each time, as a whole device is
    def limited(self, units: int | None) -> "Device":
        """The device, or so many of its compute units. Raises `BadSetting`, `DeviceError`."""
        have = self.info.traits.compute_units
        if units is None or units == have:
            return self
        if not 1 <= units <= have:
            raise BadSetting("threads", units, f"1 to the {have} compute units of {self.info.name}")
        by_counts: Any = [cl.device_partition_property.BY_COUNTS, units, 0]
        try:
            part = self.handle.create_sub_devices(by_counts)[0]
        except cl.Error as error:
            problem = f"cannot be divided ({error}); leave --threads out"
            raise DeviceError(self.info.name, problem) from None
        traits = replace(self.info.traits, compute_units=units)
        return Device(replace(self.info, traits=traits), part)

    def rounding(self, bits: ActivationBits) -> "Device":
        """The device with activations of so many bits, where that is quicker."""
        traits = replace(self.info.traits, activation_bits=bits)
        return Device(replace(self.info, traits=traits), self.handle)

    def memory_pool(self) -> MemoryPool:
        """The pool this device allocates from."""
        if self.info.pool == SYSTEM:
            return system_pool()
        return device_pool(self.info.pool, self.info.memory, self._read_amd)

    def _read_amd(self) -> tuple[int, str] | None:
        """Free memory by AMD's driver: KiB in all, and in the largest block."""
        try:
            return int(np.ravel(self.handle.global_free_memory_amd)[0]) << 10, "amd"
        except (cl.Error, AttributeError):
            return None


def list_devices() -> list[DeviceInfo]:
    """Every CPU and GPU that the drivers show: GPUs first, defaults before their duplicates."""
    return [device.info for device in find_devices()]


def open_device(name: str | None = None) -> Device:
    """The device spelled `name`, or the first default one. Raises `DeviceError`."""
    devices = find_devices()
    for device in devices:
        if device.info.name == name or (name is None and device.info.default):
            if device.info.problem:
                raise DeviceError(device.info.name, device.info.problem)
            return device
    if not devices:
        problem = f"no OpenCL driver works here; {INSTALL}, or see `cutaway doctor`"
    elif name is None:
        problem = devices[0].info.problem
    else:
        names = ", ".join(device.info.name for device in devices)
        problem = f"there is no such device; there are {names} and host"
    raise DeviceError(name or "(any)", problem)


def find_devices() -> list[Device]:
    """The devices of `list_devices`, with handles, in the same order."""
    found: list[Device] = []
    counts: dict[str, int] = {}
    for platform in platforms():
        family = family_name(platform.name)
        if "fpga" in platform.name.lower():  # an emulator for developers of FPGA programs
            continue
        for handle in _handles(platform):
            index = counts.get(family, 0)
            try:
                info = describe(f"{family}:{index}", platform, handle)
            except cl.Error:  # a driver that cannot describe its device cannot run it
                continue
            counts[family] = index + 1
            found.append(Device(info, handle))
    return _with_defaults(found)


def family_name(platform: str) -> str:
    """The first part of a device's spelling: a short word for a platform's name."""
    for pattern, family in DEVICE_FAMILIES:
        if re.search(pattern, platform, re.IGNORECASE):
            return family
    words = re.findall(r"[a-z0-9]+", platform.lower())
    return words[0] if words else "opencl"


def _handles(platform: cl.Platform) -> Sequence[cl.Device]:
    try:
        handles = platform.get_devices()
    except cl.Error:  # a driver without its hardware
        return ()
    chosen = [h for h in handles if h.type & (cl.device_type.GPU | cl.device_type.CPU)]
    for handle in chosen:
        name_unknown_cpu(handle)
    return chosen


def describe(name: str, platform: cl.Platform, handle: cl.Device) -> DeviceInfo:
    extensions = tuple(sorted(handle.extensions.split()))
    lanes = LANES.get() and bool(handle.type & cl.device_type.CPU)
    is_cpu = bool(handle.type & cl.device_type.CPU) and not lanes
    title, vector_ints = " ".join(handle.name.split()), _vector_ints(handle, is_cpu)
    facts = (title, handle.version, handle.driver_version, platform.version)
    tried = () if is_cpu else dot4_trials(name, facts)
    if used(tried, "dot4"):  # products of fragments are for devices that have these, too
        tried += matrix_trials(name, facts)
    matrix = used(tried, "matrix")
    if matrix and matrix not in HALVES:  # attention multiplies halves
        tried += halves_trials(name, facts)
    dot4 = used(tried, "dot4") or ("PLAIN" if lanes else "")
    return DeviceInfo(
        name=name,
        title=title,
        vendor=handle.vendor.strip(),
        platform=platform.name.strip(),
        driver_version=handle.driver_version.strip(),
        memory=handle.global_mem_size,
        max_allocation=handle.max_mem_alloc_size,
        alignment=max(handle.mem_base_addr_align // 8, LEAST_ALIGNMENT),
        problem=problem_of(name) or _cannot_be_limited(name, handle),
        pool=SYSTEM if is_cpu or handle.host_unified_memory else _own_pool(name, handle),
        extensions=extensions,
        tried=tried,
        traits=DeviceTraits(
            is_cpu=is_cpu,
            compute_units=_units(handle, is_cpu or lanes, extensions),
            max_work_group=handle.max_work_group_size,
            local_memory=handle.local_mem_size,
            own_local_memory=handle.local_mem_type == cl.device_local_mem_type.LOCAL,
            vector_ints=vector_ints,
            vector_bytes=is_cpu and vector_ints >= 8,
            vnni=is_cpu and vector_ints == 16 and "avx512_vnni" in flags(),
            slow_launches=is_cpu and name.startswith(SLOW_LAUNCHES),
            dot4=dot4,
            matrix=matrix,
            halves=matrix if matrix in HALVES else used(tried, "halves"),
            tuned=tuned_for(_tuning(name, title, is_cpu, vector_ints)),
        ),
    )


def _units(handle: cl.Device, is_cpu: bool, extensions: Sequence[str]) -> int:
    """Cores; of a GPU what NVIDIA calls a multiprocessor. Intel's drivers count parts of 16."""
    parts = not is_cpu and any(name.startswith("cl_intel_") for name in extensions)
    return max(1, int(handle.max_compute_units) // (INTEL_PARTS if parts else 1))


def _vector_ints(handle: cl.Device, is_cpu: bool) -> int:
    """32-bit elements of a processor's vector register, or the number in the settings."""
    own, narrow = int(handle.native_vector_width_int), limit()
    return min(own, narrow.ints) if is_cpu and narrow else own


def _tuning(name: str, title: str, is_cpu: bool, vector_ints: int) -> str:
    return key_of(name.partition(":")[0], title, 32 * vector_ints if is_cpu else 0)


def problem_of(name: str) -> str:
    """Why a device of that name could not run a kernel here; empty where nothing is known."""
    # PoCL links every kernel it has compiled, and ends the process where it cannot.
    if name.startswith("pocl") and shutil.which("ld") is None:
        return "PoCL needs the system's linker `ld`: apt-get install binutils"
    return ""


def _cannot_be_limited(name: str, handle: cl.Device) -> str:
    if limit() and name.startswith("pocl") and not can_be_renamed(handle):
        return (
            "this PoCL does not support CUTAWAY_VECTORS: unset it, or pip install 'cutaway[pocl]'"
        )
    return ""


def _own_pool(name: str, handle: cl.Device) -> str:
    """A key by the card's place on the bus, the same for every driver that shows it."""
    try:
        bus, slot = handle.pci_bus_id_nv, handle.pci_slot_id_nv
        return f"pci:{bus:02x}:{slot >> 3:02x}.{slot & 7}"
    except cl.Error:
        pass
    try:
        place = handle.topology_amd
        return f"pci:{place.bus:02x}:{place.device:02x}.{place.function}"
    except (cl.Error, AttributeError):
        return name


def _with_defaults(devices: Sequence[Device]) -> list[Device]:
    """Sorted by rank, with the first device of every processor made its default."""
    first: dict[str, str] = {}
    ranked: list[Device] = []
    for device in sorted(devices, key=_rank):
        info = device.info
        processor = "cpu" if info.traits.is_cpu else f"{info.pool} {info.title}"
        default = first.get(processor, "")
        if not default and not info.problem:
            default = first[processor] = info.name
        is_default = default == info.name
        ranked.append(
            Device(
                replace(info, default=is_default, same_as="" if is_default else default),
                device.handle,
            )
        )
    return sorted(ranked, key=lambda d: (d.info.traits.is_cpu, not d.info.default))


def _rank(device: Device) -> tuple[bool, int, str]:
    family = device.info.name.partition(":")[0]
    generic = GENERIC.index(family) + 2 if family in GENERIC else 0
    return device.info.traits.is_cpu, generic or (family != "intel"), device.info.name
