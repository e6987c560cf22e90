"""Numbers that launches on a device are made with: data, found by engine.tuner.

A person's own measurement of a device comes first (`cutaway tune`, in the cache folder), then what
`resources/tuning` has for it, one file per device; what neither names is in `default.json`.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from types import MappingProxyType

import msgspec

from engine.backends.opencl.source import kept_folder
from engine.kept import UNREADABLE, read_kept

CHOICES: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "panel": (4, 8),
        "chunk": (16, 32, 64, 128, 256, 512),
        "crossed": (0, 4, 6, 8),
        "ahead": (2048, 4096, 8192, 16384),
        "tiles": (1, 2, 4, 8),
        "elements": (1024, 2048, 4096, 8192),
        "cells": (64, 128, 256, 512),
        "lane_panel": (4, 8),
        "lane_team": (2, 4, 8, 16),
        "lane_cells": (32, 64, 128, 256),
        "row_team": (64, 128, 256),
    }
)
"""What each number may be."""


class Tuned(msgspec.Struct, frozen=True):
    """One device's numbers. The first are for items with vectors (CPUs), those from `lane_panel`
    on for items that are lanes (GPUs).

        panel, lane_panel   rows of x that a product makes at once, where it makes many; on CPUs
                            only where registers are wide
        chunk               most rows of x that make a unit of a product's work, whose panels a
                            core's cache is to hold
        crossed             of eight rows of x, those whose products are made with half the
                            multiplications and twice the additions (tiled_stage.cl), where
                            registers are wide
        ahead               bytes that weights are fetched before they are used
        tiles               most tiles of gate and of up that an item makes of one row of x
        elements            elements of elementwise work that an item takes: below that a second
                            item costs more than it saves
        cells, lane_cells   fewest cells of a full cache that a chunk of attention has, which must
                            pay for the launch that merges chunks
        lane_team           most items that share a row of weights
        row_team            most items that make one row together
    """

    panel: int
    chunk: int
    crossed: int
    ahead: int
    tiles: int
    elements: int
    cells: int
    lane_panel: int
    lane_team: int
    lane_cells: int
    row_team: int


class TuningFile(msgspec.Struct, frozen=True):
    """A file: what was measured, on which device with which driver, and what it was worth: by
    family the new speed over the default's.
    """

    values: dict[str, int]
    device: str = ""
    driver: str = ""
    gains: dict[str, float] = {}


def key_of(family: str, title: str, bits: int) -> str:
    """A device's file name: driver, device and, where it matters, the width of its vectors."""
    words = re.findall(r"[a-z0-9]+", title.lower())
    return "-".join([family, *words, *([f"{bits}bit"] if bits else [])])


def tuned_for(key: str) -> Tuned:
    """The numbers for a device."""
    for folder in (own_folder(), files("resources") / "tuning"):
        if stored := read(folder / f"{key}.json"):
            return _over(stored)
    return default()


@cache
def default() -> Tuned:
    """The numbers for devices that nobody has measured."""
    stored = read(files("resources") / "tuning" / "default.json")
    assert stored is not None
    return msgspec.convert(stored.values, Tuned)


def own_folder() -> Path:
    """Where a person's own measurements are kept."""
    return kept_folder("tuning")


def read(path: Path | Traversable) -> TuningFile | None:
    """The content of a file; None where it is missing or unreadable."""
    try:
        data = read_kept(path) if isinstance(path, Path) else path.read_bytes()
        return msgspec.json.decode(data, type=TuningFile)
    except (OSError, *UNREADABLE):
        return None


def _over(stored: TuningFile) -> Tuned:
    """The default with what is stored; other versions' names and numbers are left out."""
    values = msgspec.structs.asdict(default())
    values |= {k: v for k, v in stored.values.items() if v in CHOICES.get(k, ())}
    return msgspec.convert(values, Tuned)
