"""`cutaway doctor`: tries every OpenCL driver and looks for what the window needs."""

import argparse
import ctypes
import sys
from functools import partial

import msgspec

from app.checks.kept import Damage, Reading, find_damage, find_unfinished, mend
from app.checks.processes import check_drivers
from app.fetch.known import known_sums
from app.stores import unreadable
from app.terminal.progress import Bar
from app.terminal.text import confirm, interactive, plain, print_json
from engine.errors import CutawayError
from engine.protocol import DriverCheck
from engine.units import MIB

NAME = "doctor"
HELP = "test every OpenCL driver and print what to install"
NO_DRIVER = "No OpenCL driver works: models run on host, slowly. Next: pip install 'cutaway[cpu]'"
# What PySide6's wheels load from the system, for offscreen and for xcb: library, Debian package.
QT_LIBRARIES = {
    "libglib-2.0.so.0": "libglib2.0-0",
    "libgthread-2.0.so.0": "libglib2.0-0",
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libX11.so.6": "libx11-6",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
    "libfreetype.so.6": "libfreetype6",
    "libX11-xcb.so.1": "libx11-xcb1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
    "libxcb.so.1": "libxcb1",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render.so.0": "libxcb-render0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-shm.so.0": "libxcb-shm0",
    "libxcb-sync.so.1": "libxcb-sync1",
    "libxcb-util.so.1": "libxcb-util1",
    "libxcb-xfixes.so.0": "libxcb-xfixes0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument(
        "--repair",
        action="store_true",
        help="read Cutaway's files whole, list the damaged ones and offer to mend them",
    )
    parser.add_argument("--yes", action="store_true", help="with --repair: mend without a question")


def run(args: argparse.Namespace) -> int:
    """Status 0 when a driver works, or nothing damaged is left; else 1. What only the window needs
    does not count.
    """
    if args.repair:
        return _repair(args.json, args.yes)
    drivers = []
    for driver in check_drivers():
        drivers.append(driver)
        if not args.json:
            _print_driver(driver)
    packages = missing_packages()
    works = any(driver.works for driver in drivers)
    if args.json:
        print_json(as_json(drivers, packages), indent=2)
    else:
        print_rest(works, packages)
    return 0 if works else 1


def missing_packages() -> list[str]:
    """Debian packages of the libraries that the window needs and the system does not have."""
    if sys.platform != "linux":
        return []
    return list(dict.fromkeys(pkg for name, pkg in QT_LIBRARIES.items() if not loads(name)))


def loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def as_json(drivers: list[DriverCheck], packages: list[str]) -> dict[str, object]:
    return {
        "drivers": [msgspec.to_builtins(driver) for driver in drivers],
        "missing_packages": packages,
        "unreadable": unreadable(),
        "damaged": [_damage_as_json(damage) for damage in find_damage()],
        "unfinished": list(find_unfinished()),
        "next_steps": _next_steps(any(d.works for d in drivers), packages)
        + [driver.advice for driver in drivers if driver.advice],
    }


def _next_steps(works: bool, packages: list[str]) -> list[str]:
    steps = [] if works else ["pip install 'cutaway[cpu]'"]
    if packages:
        steps.append(f"apt-get install -y --no-install-recommends {' '.join(packages)}")
    return steps


def _print_driver(driver: DriverCheck) -> None:
    print(f"{'ok ' if driver.works else 'BAD'} {driver.library} (from {driver.origin})")
    for device in driver.devices:
        result = device.problem or f"built and ran a kernel in {device.seconds:.2f} s"
        print(f"      {device.name}: {result}")
        if device.tried:
            print(f"      {device.name}: {device.tried}")
    if driver.problem:
        print(f"      {driver.problem}")
    if driver.advice:
        print(f"      next: {driver.advice}")


def print_rest(works: bool, packages: list[str]) -> None:
    if not works:
        print(NO_DRIVER)
    if packages:
        noun = "package" if len(packages) == 1 else "packages"
        print(f"--  the window needs {len(packages)} more system {noun}")
        print(f"      next: {_next_steps(True, packages)[0]}")
    else:
        print("ok  system libraries of the window")
    for folder in unreadable():
        print(f"--  models are left out: {plain(folder)}")
    damaged = list(find_damage())
    for damage in damaged:
        print(_damage_line(damage))
    if damaged:
        print("      next: cutaway doctor --repair")
    for line in find_unfinished():
        print(f"--  {plain(line)}")


def _damage_line(damage: Damage) -> str:
    return f"BAD {damage.kind.name}: {plain(str(damage.path))}: {plain(damage.problem)}"


def _damage_as_json(damage: Damage) -> dict[str, str]:
    return {
        "kind": damage.kind.name,
        "path": str(damage.path),
        "problem": damage.problem,
        "repair": damage.repair,
    }


def _show_progress(bar: Bar, name: str, done: int, total: int) -> None:
    bar.update(f"reading {name}", done, total, f"{done / MIB:.0f} of {total / MIB:.0f} MiB")


def _repair(as_json: bool, yes: bool) -> int:
    """Lists what is damaged and mends what the person agrees to."""
    with Bar() as bar:
        found = list(find_damage(Reading(partial(_show_progress, bar), known_sums())))
    done: list[str] = []
    left = 0
    for damage in found:
        if not as_json:
            print(_damage_line(damage))
            print(f"      to mend it: {plain(damage.repair)}")
        if not yes and (as_json or not interactive() or not confirm("Do that?")):
            left += 1
            continue
        try:
            done.append(mend(damage))
        except CutawayError as error:
            done.append(str(error))
            left += 1
        if not as_json:
            print(f"      {plain(done[-1])}")
    if as_json:
        repaired = {"damaged": [_damage_as_json(d) for d in found], "done": done}
        print_json(repaired | {"unfinished": list(find_unfinished())}, indent=2)
        return 1 if left else 0
    for line in find_unfinished():
        print(f"--  {plain(line)}")
    if not found:
        print("ok  no file of Cutaway's is damaged")
    elif left and not yes:
        print(f"--  {left} left as they are; --yes mends them")
    return 1 if left else 0
