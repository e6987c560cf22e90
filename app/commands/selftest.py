"""`cutaway selftest`: does a device compute correctly? Every operation against the host."""

import argparse
import time

import msgspec

from app.checks.processes import SHARES, cases, choose_device
from app.terminal.progress import Bar, remaining
from app.terminal.text import print_json
from app.version import version
from engine.protocol import CaseResult, DeviceRow, SelfTest

NAME = "selftest"
HELP = "check each operation of a device against the host"
FAILED = 1


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("--device", metavar="NAME", help="as `devices` names it (the best one)")
    parser.add_argument(
        "--op", default="", metavar="PATTERN", help="only cases that match: '^matmul Q4_K', 'rope'"
    )
    parser.add_argument("--quick", action="store_true", help="run fewer cases (a minute)")
    parser.add_argument("--perf", action="store_true", help="measure GB/s and GFLOP/s as well")
    parser.add_argument("--json", action="store_true", help="print a report to attach to a bug")


def run(args: argparse.Namespace) -> int:
    """Status 0 when nothing failed. Raises `BadSetting`, `DeviceError`."""
    device = choose_device(args.device)
    # A compiler takes one core; only what is timed must run alone.
    shares = 1 if args.perf else SHARES
    wanted = SelfTest(device.id, args.op, args.quick, args.perf, shares=shares)
    results: list[CaseResult] = []
    start = time.monotonic()
    with Bar() as bar:
        for done, total, result in cases(wanted):
            if result.status != "started":
                results.append(result)
                if result.status == "failed" and not args.json:
                    bar.clear()
                    print(f"FAILED {result.op} {result.label}: {result.problem}")
            bar.update(device.id, done, total, remaining(start, done, total))
    seconds = time.monotonic() - start
    if args.json:
        print_json(_report(device, args, results, seconds), indent=1)
    else:
        _print(device, results, seconds)
    return FAILED if any(r.status == "failed" for r in results) else 0


def _print(device: DeviceRow, results: list[CaseResult], seconds: float) -> None:
    print(f"{device.id}  {device.name}, {device.driver}")
    checked = [r for r in results if r.status != "measured"]
    width = max((len(r.op) for r in checked), default=2)
    print(f"{'op':<{width}}  passed  failed  unsupported  worst error  allowed")
    for op in dict.fromkeys(r.op for r in checked):
        mine = [r for r in checked if r.op == op]
        count = {s: sum(r.status == s for r in mine) for s in ("passed", "failed", "unsupported")}
        worst = max(mine, key=lambda r: r.error / (r.most or 1.0))
        print(
            f"{op:<{width}}  {count['passed']:6}  {count['failed']:6}  {count['unsupported']:11}  "
            f"{worst.error:11.1e}  {worst.most:7.0e}"
        )
    for one in results:
        if one.status == "measured":
            name = f"{one.op} {one.label}"
            print(f"{name:<52} {one.gb_per_s:8.1f} GB/s {one.gflop_per_s:9.1f} GFLOP/s")
    failed = sum(r.status == "failed" for r in checked)
    passed = sum(r.status == "passed" for r in checked)
    rest = len(checked) - failed - passed
    print(f"{passed} passed, {failed} failed, {rest} unsupported in {seconds:.0f} s")


def _report(
    device: DeviceRow, args: argparse.Namespace, results: list[CaseResult], seconds: float
) -> dict[str, object]:
    return {
        "cutaway": version(),
        "device": msgspec.to_builtins(device),
        "pattern": args.op,
        "quick": args.quick,
        "seconds": round(seconds, 1),
        "results": [msgspec.to_builtins(r) for r in results],
    }
