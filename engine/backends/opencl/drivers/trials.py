"""Instructions that vendors have under names of their own: each is tried before it is used.

A trial compiles, runs and compares one (attempt.py), in a process of its own, which may crash or
hang. What it found is kept for as long as the driver and the kernel stay the same.

`python -m engine.backends.opencl.drivers.trials DEVICE` tries every way anew and prints each
`Trial` with its seconds as a line of JSON.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256

import msgspec

from engine.backends.opencl.source import kept_folder, source
from engine.kept import UNREADABLE, read_sealed, write_sealed
from engine.settings import TRIALS

DOT4 = ("NVIDIA", "AMD", "RDNA3", "INTEL")
"""The ways to add four products of bytes (kernels_cl/parts/intrinsics.cl)."""

MATRIX = ("IMMA", "HMMA", "WMMA", "MFMA", "DPAS16", "DPAS8")
"""The ways to multiply fragments of matrices (kernels_cl/parts/fragments.cl). Bytes come first:
their sums are those of dot4.
"""

BESIDE_BYTES = ("HMMA",)
"""Those of MATRIX that are tried for halves where bytes come first."""

TIMEOUT = 30.0
MAGIC = b"CutawayTrials1\n"
"""Seconds for one, the start of its process and the driver's compiler included."""

ATTEMPT = (sys.executable, "-m", "engine.backends.opencl.attempt")


class Trial(msgspec.Struct, frozen=True):
    """A way that was tried, for which `purpose`, and why it is not used; empty where it is."""

    way: str
    refused: str = ""
    purpose: str = "dot4"


def dot4_trials(device: str, facts: Sequence[str]) -> tuple[Trial, ...]:
    """The ways that were tried on a device, the last of which may be in use. `facts` name its
    driver's version: of another one the trials are made again.
    """
    return _trials(device, "dot4", DOT4, facts)


def matrix_trials(device: str, facts: Sequence[str]) -> tuple[Trial, ...]:
    """Return the ways to multiply fragments of matrices that were tried, as `dot4_trials` does."""
    return _trials(device, "matrix", MATRIX, facts)


def halves_trials(device: str, facts: Sequence[str]) -> tuple[Trial, ...]:
    """Return the ways to multiply halves that were tried where `matrix` multiplies bytes."""
    return _trials(device, "halves", BESIDE_BYTES, facts)


def used(trials: Sequence[Trial], purpose: str) -> str:
    """The way that is in use; empty where there is none."""
    return next((one.way for one in trials if one.purpose == purpose and not one.refused), "")


def _trials(
    device: str, purpose: str, ways: Sequence[str], facts: Sequence[str]
) -> tuple[Trial, ...]:
    if not TRIALS.get():
        return ()
    kernel = "dot4_trial" if purpose == "dot4" else "matrix_trial"
    text = "\0".join((*facts, *ways, source(kernel)))
    path = kept_folder("trials") / f"{sha256(text.encode()).hexdigest()[:32]}.sealed"
    with suppress(OSError, *UNREADABLE):
        return msgspec.json.decode(read_sealed(path, MAGIC), type=tuple[Trial, ...])
    found = []
    for way in ways:
        found.append(Trial(way, _refused(device, way), purpose))
        if not found[-1].refused:
            break
    with suppress(OSError):  # then they are made again
        write_sealed(path, MAGIC, msgspec.json.encode(found))
    return tuple(found)


def summary(trials: Sequence[Trial]) -> str:
    """A line for people: what is in use, and why the others are not."""
    return "; ".join(
        _line(purpose, [one for one in trials if one.purpose == purpose])
        for purpose in dict.fromkeys(one.purpose for one in trials)
    )


def _line(purpose: str, trials: Sequence[Trial]) -> str:
    way = used(trials, purpose)
    refused = "; ".join(f"{one.way}: {one.refused}" for one in trials if one.refused)
    first = f"{purpose} by {way}" if way else f"no {purpose}"
    return f"{first}{f' ({refused})' if refused else ''}"


def _refused(device: str, way: str) -> str:
    """Why a way is not used; empty where its numbers are right."""
    environment = os.environ | {TRIALS.name: "0"}
    try:
        done = subprocess.run(
            [*ATTEMPT, device, way],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=TIMEOUT,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {TIMEOUT:g} s"
    if done.returncode < 0:
        return f"its process ended by {signal.Signals(-done.returncode).name}"
    words = done.stdout.decode("utf-8", "replace").split("\n")
    return words[0] if done.returncode == 0 else f"its process ended with {done.returncode}"


def main(device: str) -> None:
    """Print each way's trial, also of those after the first that can be used."""
    for purpose, ways in (("dot4", DOT4), ("matrix", MATRIX)):
        for way in ways:
            start = time.perf_counter()
            trial = msgspec.structs.asdict(Trial(way, _refused(device, way), purpose))
            line = trial | {"seconds": round(time.perf_counter() - start, 3)}
            print(msgspec.json.encode(line).decode(), flush=True)  # noqa: T201  the answer


if __name__ == "__main__":
    main(sys.argv[1])
