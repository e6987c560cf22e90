"""The machine and the program, as far as both say so without asking a device."""

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from app.version import commit, version
from engine.units import MIB

PACKAGES = (
    *("pyopencl", "numpy", "gguf", "intel-opencl-rt", "intel-cmplr-lib-rt"),
    *("pocl-binary-distribution", "PySide6-Essentials"),
)
PREFIXES = ("CUTAWAY_", "POCL_", "OCL_", "CL_", "OPENCL_", "PYOPENCL_")
GPU_MODULES = ("nvidia", "amdgpu", "i915", "xe", "radeon", "nouveau")
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def program_facts() -> dict[str, str]:
    """Versions of the program and of what it stands on."""
    facts = {"cutaway": " ".join(filter(None, (version(), commit())))}
    facts["python"] = f"{platform.python_implementation()} {platform.python_version()}"
    for package in PACKAGES:
        try:
            facts[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return facts


def machine_facts() -> dict[str, Any]:
    """Its system, processor, memory, and the settings that change how fast it is."""
    memory = psutil.virtual_memory()
    return {
        "system": _system(),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _of_cpu("model name") or platform.processor(),
        "cores": psutil.cpu_count(logical=False) or 0,
        "threads": psutil.cpu_count() or 0,
        "usable": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0,
        "memory_mib": memory.total // MIB,
        "free_mib": memory.available // MIB,
        "caches": _caches(),
        "busy_percent": psutil.cpu_percent(interval=0.5),
        "huge_pages": _text("/sys/kernel/mm/transparent_hugepage/enabled"),
        "governor": _text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "virtual": "hypervisor" in _of_cpu("flags").split(),
        "gpu_modules": _modules(),
        "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith(PREFIXES)},
        "flags": _of_cpu("flags") or _of_cpu("Features"),
    }


def _system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return platform.platform()


def _of_cpu(name: str) -> str:
    """A line about the first core, as Linux has it."""
    for line in _text("/proc/cpuinfo").splitlines():
        key, colon, value = line.partition(":")
        if colon and key.strip() == name:
            return value.strip()
    return ""


def _caches() -> dict[str, str]:
    found = {}
    for folder in sorted(CACHES.glob("index*")):
        name = f"L{_text(folder / 'level')} {_text(folder / 'type')}"
        found[name] = f"{_text(folder / 'size')} for cores {_text(folder / 'shared_cpu_list')}"
    return found


def _modules() -> dict[str, str]:
    """The kernel's drivers of graphics cards, with their version where they say one."""
    folders = {name: Path("/sys/module") / name for name in GPU_MODULES}
    return {
        name: _text(folder / "version") or "part of the kernel"
        for name, folder in folders.items()
        if folder.exists()
    }


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text("utf-8", "replace").strip()
    except OSError:
        return ""
