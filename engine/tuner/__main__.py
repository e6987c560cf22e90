"""`python -m engine.tuner '{"device": ...}'`: a line of JSON a trial, the result at the end.

A process of its own, so that a driver which crashes takes nobody with it.
"""

import sys
from pathlib import Path

import msgspec
from msgspec import structs

from engine.backends.opencl.drivers.device import Device, open_device
from engine.backends.opencl.tuned import TuningFile, default, own_folder, read
from engine.errors import BadSetting, CutawayError
from engine.kept import write_atomically
from engine.protocol import TrialResult, Tune, TunePlan, TuneResult
from engine.tuner.families import TuningFamily, families_for
from engine.tuner.search import Contest


def main(text: str) -> None:
    """Tune what is wanted, one family after the other, and keep what was found."""
    wanted = msgspec.json.decode(text, type=Tune)
    try:
        device = open_device(wanted.device)
        families = _wanted(wanted.family, device)
        traits = device.info.traits
        n_trials = sum(len(list(f.combinations(default(), traits))) for f in families)
        _print(TunePlan(n_trials))
        folder = Path(wanted.folder) if wanted.folder else own_folder()
        path = folder / f"{device.info.tuning}.json"
        stored = _tune(device, families)
        if wanted.family and (before := read(path)):
            values, gains = before.values | stored.values, before.gains | stored.gains
            stored = structs.replace(stored, values=values, gains=gains)
        keep(path, stored)
    except CutawayError as error:
        _print(TunePlan(0, str(error)))
    except OSError as error:
        _print(TunePlan(0, f"{error.filename}: {error.strerror}; name a folder with --to"))
    else:
        _print(TuneResult(str(path), stored.values, stored.gains))


def keep(path: Path, stored: TuningFile) -> None:
    """Write what was measured; what was there stays where that fails. Raises OSError."""
    write_atomically(path, msgspec.json.format(msgspec.json.encode(stored), indent=1) + b"\n")


def _wanted(name: str, device: Device) -> list[TuningFamily]:
    families = families_for(device.info.traits)
    names = [family.name for family in families]
    if name and name not in names:
        raise BadSetting("--family", name, f"one of {', '.join(names)}")
    return [family for family in families if name in ("", family.name)]


def _tune(device: Device, families: list[TuningFamily]) -> TuningFile:
    """From the default on; what a family found counts only where it holds once more."""
    base, gains = default(), {}
    for family in families:
        contest, best = Contest(device, family), base
        for trial in contest.search(base):
            values = {name: getattr(trial.tuned, name) for name in family.names}
            measured = (trial.speed, family.unit, trial.gain, trial.better)
            _print(TrialResult(family.name, values, *measured))
            best = trial.tuned if trial.better else best
        gains[family.name] = 1.0
        if best != base:
            again = contest.compare(base, best)
            if again.better:
                base, gains[family.name] = best, round(again.gain, 3)
    names = [name for family in families for name in family.names]
    values = {name: value for name, value in structs.asdict(base).items() if name in names}
    info = device.info
    return TuningFile(values, info.title, f"{info.platform} {info.driver_version}", gains)


def _print(result: TunePlan | TrialResult | TuneResult) -> None:
    print(msgspec.json.encode(result).decode(), flush=True)  # noqa: T201  the child's answer


if __name__ == "__main__":
    main(sys.argv[1])
