"""A placement written down again: in the words of `--place`, and in llama.cpp's."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from engine.memory.placement import Placement

ELSEWHERE = re.compile(r"\(\?[^:=!]|\\[AZ]")
"""What Python's regular expressions have and llama.cpp's (ECMAScript's) have not."""


def rule_of(placement: Placement) -> str:
    """The shortest rule that places every layer so: ranges in order, then the patterns, each once.

    Read by `parse_pins` it gives the same layers and the same device of every weight.
    """
    spans = [f"{span}={device}" for span, device in _runs(placement.layers)]
    patterns = [f"{pattern}={device}" for pattern, device in dict(_first(placement)).items()]
    return ",".join([*spans, *patterns])


@dataclass(frozen=True)
class LlamaCpp:
    """Flags for llama.cpp, and sentences on what they cannot say."""

    flags: str
    notes: tuple[str, ...] = ()


def llama_cpp(
    placement: Placement,
    called: Callable[[str], str],
    nodes: Sequence[str] = (),
) -> LlamaCpp:
    """The placement for llama.cpp, where devices are `called` CPU, CUDA0 and so on.

    `nodes` are patterns of results, not of weights. Layers that lie in llama.cpp's own order, the
    CPU's first and then device by device, become -ngl and -ts; others -ot for their weights.
    """
    names = [called(device) for device in placement.layers]
    notes = _shared(placement, called)
    gpus = [name for name in dict.fromkeys(names) if name != "CPU"]
    first = next((i for i, name in enumerate(names) if name != "CPU"), len(names))
    runs = [name for name, _ in groupby(names[first:])]
    flags = [f"-ngl {len(names) - first}"]
    if runs == sorted(gpus):
        if len(gpus) > 1:
            flags.append("-ts " + ",".join(str(names.count(name)) for name in runs))
    else:
        flags = ["-ngl 0" if not gpus else f"-ngl {len(names)}"]
        flags += [f"-ot {_quoted(pattern, name)}" for pattern, name in _by_weights(names)]
        notes.append(
            "-ot moves only weights: caches stay where llama.cpp's own split of layers puts them"
        )
    for pattern, device in _first(placement):
        if pattern in nodes:
            notes.append(f"llama.cpp cannot place results of operations: {pattern} is left out")
            continue
        if ELSEWHERE.search(pattern):
            notes.append(f"llama.cpp may read the pattern {pattern} in another way")
        flags.append(f"-ot {_quoted(pattern, called(device))}")
    return LlamaCpp(" ".join(flags), tuple(notes))


def _first(placement: Placement) -> list[tuple[str, str]]:
    """The patterns, of equal ones the first, which is the one that counts."""
    found: dict[str, str] = {}
    for pattern, device in placement.overrides:
        found.setdefault(pattern, device)
    return list(found.items())


def _runs(devices: Sequence[str]) -> list[tuple[str, str]]:
    """Ranges of layers on one device, the output block apart."""
    found, start = [], 0
    for device, group in groupby(devices[:-1]):
        end = start + len(list(group))
        found.append((str(start) if end == start + 1 else f"{start}-{end - 1}", device))
        start = end
    return [*found, ("out", devices[-1])]


def _shared(placement: Placement, called: Callable[[str], str]) -> list[str]:
    """Devices that llama.cpp does not distinguish."""
    named: dict[str, list[str]] = {}
    for device in dict.fromkeys([*placement.layers, *(d for _, d in placement.overrides)]):
        named.setdefault(called(device), []).append(device)
    return [
        f"llama.cpp has one device {name} for {' and '.join(ours)}"
        for name, ours in named.items()
        if len(ours) > 1
    ]


def _by_weights(names: Sequence[str]) -> list[tuple[str, str]]:
    """A pattern for the weights of each device's layers."""
    layers: dict[str, list[str]] = {}
    for i, name in enumerate(names[:-1]):
        layers.setdefault(name, []).append(str(i))
    found = [(rf"blk\.({'|'.join(mine)})\.", name) for name, mine in layers.items()]
    return [*found, (r"^output", names[-1])]


def _quoted(pattern: str, name: str) -> str:
    return "'" + f"{pattern}={name}".replace("'", "'\\''") + "'"
