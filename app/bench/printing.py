"""Output of `cutaway bench`: rows like llama-bench's, comparisons, profiles."""

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any

from app.terminal.text import table
from app.words import UNKNOWN
from engine.protocol import Cost, SplitRecord, StepProfile
from engine.units import MIB

_HEAD = ("model", "size", "params", "backend", "threads", "test", "t/s", "median")
_COSTS = {"kernel": "kernel", "op": "operation", "role": "tensor", "split": "split"}


def head(against: bool) -> Iterator[str]:
    """The first two lines of the table of tests."""
    names = (*_HEAD, "llama.cpp", "ratio") if against else _HEAD
    yield line(names)
    left = {"model", "backend"}
    yield "|" + "|".join(" --- " if name in left else " ---: " for name in names) + "|"


def row(test: dict[str, Any]) -> str:
    """One test, as it is in the JSON."""
    cells = [
        test["model_type"],
        f"{test['model_size'] / MIB:.2f} MiB",
        f"{test['model_n_params'] / 1e6:.2f} M",
        test["backends"],
        str(test["n_threads"]),
        test["test"],
        f"{test['avg_ts']:.2f} ± {test['stddev_ts']:.2f}",
        f"{test['median_ts']:.2f}",
    ]
    if "ratio" in test:
        flash = "on" if test["theirs_flash_attn"] else "off"
        cells.append(f"{test['theirs']:.2f} (flash attention {flash})")
        spread = f"{min(test['ratios']):.2f} to {max(test['ratios']):.2f}"
        cells.append(f"{test['ratio']:.3f} ({spread})")
    return line(cells)


def load_lines(load: dict[str, Any]) -> Iterator[str]:
    """How long opening takes, and what it adds to memory, as in the JSON."""
    size, times = load["file_size"], load["samples_ns"]
    yield (
        f"{load['model_type']}, {size / MIB:.0f} MiB on {load['backends']}: opened in "
        f"{load['median_ns'] / 1e9:.2f} s ({min(times) / 1e9:.2f} to {max(times) / 1e9:.2f}), "
        f"{load['s_per_gb']:.2f} s per GB"
    )
    yield f"  {_origin(load['prepared'], load['problem'])}"
    parts = ", ".join(f"{name} {n / MIB:.0f} MiB" for name, n in load["memory"].items())
    weights = load["memory"].get("weights", 0)
    yield f"  memory: {parts}; weights are {weights / size:.3f} of the file"
    yield f"  the process grew by {load['grown'] / MIB:.0f} MiB, {load['grown'] / size:.3f} of it"
    yield from _cost_lines(times, load["costs"])
    if "ratio" in load:
        theirs = load["theirs_ns"]
        yield (
            f"  llama.cpp {load['theirs_median_ns'] / 1e9:.2f} s "
            f"({min(theirs) / 1e9:.2f} to {max(theirs) / 1e9:.2f}), grew by "
            f"{load['theirs_grown'] / MIB:.0f} MiB; ratio {load['ratio']:.3f} "
            f"({min(load['ratios']):.2f} to {max(load['ratios']):.2f})"
        )


def _cost_lines(times: Sequence[int], costs: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Describe the cost of the load whose time is in the middle."""
    ns, cost = sorted(zip(times, costs, strict=True), key=itemgetter(0))[len(times) // 2]
    if "seconds" in cost:
        each = ", ".join(f"{part} {s:.3f}" for part, s in cost["seconds"].items())
        yield f"  one of {ns / 1e9:.2f} s: {each} s"
    if "user_s" in cost:
        yield (
            f"  processors: {cost['user_s']:.2f} s in the program, {cost['system_s']:.2f} s in the "
            f"system; page faults: {cost['minor_faults']} minor, {cost['major_faults']} major"
        )


def _origin(prepared: Sequence[int], problem: str) -> str:
    """Describe the origin of the weights in the loads, so that figures are not confused."""
    if not any(prepared):
        return "weights were repacked for each load" + (f": {problem}" if problem else "")
    size = max(prepared) / MIB
    text = f"{size:.0f} MiB of weights came from prepared files; --prepared 0 repacks them"
    return text if all(prepared) else f"{text}, as {prepared.count(0)} of {len(prepared)} loads did"


def profile_lines(profile: StepProfile, roof: tuple[float, float]) -> Iterator[str]:
    """A step's parts, its launches by kernel, operation, tensor and split, and its copies."""
    step = profile.step_ns
    yield (
        f"\n{profile.name}: a step of {step / 1e6:.3f} ms, the median of {profile.n_steps}; "
        f"{profile.plain_ns / 1e6:.3f} ms without recording"
    )
    parts = (
        ("host before", profile.before_ns),
        ("kernels", profile.kernels_ns),
        ("gaps between them", profile.gaps_ns),
        ("host after", profile.after_ns),
    )
    yield "  " + ", ".join(f"{what} {ns / 1e6:.3f} ms = {ns / step:.1%}" for what, ns in parts)
    if all(roof):
        yield f"  roof of the device: {roof[0] / 1e9:.1f} GB/s, {roof[1] / 1e9:.0f} GFLOP/s"
    for by, title in _COSTS.items():
        costs = [cost for cost in profile.costs if cost.by == by]
        head = (title, "count", "us", "% of step", "GB/s", "% of roof", "GFLOP/s", "% of roof")
        yield ""
        yield from table([head, *(_cost_cells(cost, step, roof) for cost in costs)])
    yield ""
    first = ("split", "copies", "KiB", "copy us", "compute us")
    yield from table([first, *map(_split_cells, range(len(profile.splits)), profile.splits)])


def _split_cells(number: int, split: SplitRecord) -> Sequence[str]:
    times = (f"{ns / 1e3:.1f}" for ns in (split.copy_ns, split.compute_ns))
    return [f"{number} {split.device}", str(split.copies), f"{split.copied / 1024:.1f}", *times]


def _cost_cells(cost: Cost, step: int, roof: tuple[float, float]) -> Sequence[str]:
    ns = max(cost.ns, 1)
    cells = [cost.name, str(cost.count), f"{cost.ns / 1e3:.1f}", f"{cost.ns / step:.1%}"]
    for amount, most in zip((cost.bytes, cost.flops), roof, strict=True):
        cells += [f"{amount / ns:.1f}", f"{amount / ns * 1e9 / most:.0%}" if most else UNKNOWN]
    return cells


def line(cells: Iterable[str]) -> str:
    """Return a row of a Markdown table."""
    return "| " + " | ".join(cells) + " |"
