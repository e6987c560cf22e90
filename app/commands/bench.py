"""`cutaway bench`: tokens per second by llama-bench's convention, beside llama.cpp on request, and
where the time of a step goes.
"""

import argparse
import json
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from app.files import output
from app.terminal.options import add_engine_options, count, engine_options, positive
from app.terminal.text import print_json
from engine.errors import BadSetting, CannotSee
from engine.protocol import BenchTest

if TYPE_CHECKING:
    from app.bench.against import PeerProcess
    from app.terminal.engine import CommandEngine
    from engine.protocol import Loaded
    from engine.settings import EngineOptions

NAME = "bench"
HELP = "measure prompt and generation speed"
BATCH = 512
OWN = ("parallel", "cells")  # options of the engine that have another meaning here
DECODE_STEPS, PREFILL_STEPS = 16, 3


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("model", metavar="MODEL", help="path, stored name or org/repo[:quant]")
    group = parser.add_argument_group("tests (lists such as 128,512; 0 is none)")
    group.add_argument("-p", type=_counts, default=[512], metavar="N", help="prompt tokens (512)")
    group.add_argument(
        "-n", type=_counts, default=[128], metavar="N", help="generated tokens (128)"
    )
    group.add_argument(
        "-pg", type=_pair, action="append", default=[], metavar="P,N", help="both, in one test"
    )
    group.add_argument(
        "-d",
        type=_counts,
        default=[0],
        metavar="N",
        help="tokens already in the context, not timed (0)",
    )
    group.add_argument(
        "--image", type=Path, metavar="FILE", help="time the vision encoder with this picture"
    )
    group.add_argument("-r", type=positive, default=5, metavar="N", help="repetitions (5)")
    group.add_argument(
        "--parallel",
        type=_counts,
        metavar="N",
        help="number of parallel sequences, each of -p and -n, or of --spec (lists: 1,2,4)",
    )
    group.add_argument("--shared", action="store_true", help="with --parallel: share one prompt")
    group.add_argument(
        "--spec",
        type=Path,
        metavar="TEXTFILE",
        help="continue this text with and without speculation, in turn, by -n tokens",
    )
    group.add_argument(
        "--edits",
        type=positive,
        metavar="N",
        help="read -p and write -n tokens with N edited results and without, in turn",
    )
    _add_others(parser)
    add_engine_options(parser, without=OWN)


def _add_others(parser: argparse.ArgumentParser) -> None:
    """Declare what is measured besides, and how it is shown."""
    parser.add_argument(
        "--against", choices=("llama.cpp",), help="compare with this engine on the same file"
    )
    parser.add_argument(
        "--load",
        action="store_true",
        help="measure loads and their parts, each in a new process, prepared unless --prepared 0",
    )
    parser.add_argument(
        "--reopen",
        action="store_true",
        help="measure the first token of a prompt of -p, read and then restored in a new process",
    )
    parser.add_argument("--profile", action="store_true", help="profile one step")
    parser.add_argument(
        "--trace", type=Path, metavar="FILE", help="store the profile as a Chrome trace (Perfetto)"
    )
    parser.add_argument("--json", action="store_true", help="print the results as JSON")


def run(args: argparse.Namespace) -> int:
    """Prints each test as it is done, then the profile; or how long opening takes.

    Raises BadSetting, BadPicture, CannotSee, ModelNotFound, MissingPackage, PeerFailed,
    RemoteError, WorkerDied.
    """
    tests = _tests(args)
    options = _options(args)
    if args.spec is not None:
        return _speculation(args, options)
    if args.edits:
        return _edited(args, options)
    if args.reopen:
        return _reopened(args, options)
    if args.parallel:
        return _together(args, options)
    if options.ctx is None and args.image is None:
        largest = max(t.n_prompt + t.n_gen + t.n_depth for t in tests)
        options = replace(options, ctx=largest)

    if args.load:
        return _loads(args, options)

    from app.bench.facts import facts_of
    from app.bench.printing import head, row
    from app.library import resolve
    from app.terminal.engine import CommandEngine

    path = resolve(args.model)
    with ExitStack() as stack:
        result: dict[str, Any] = {"tests": []}
        peer = None
        if args.against:
            from app.bench.against import PeerProcess

            peer = stack.enter_context(PeerProcess(path))
            result["peer"] = {"name": args.against, **peer.about}
        engine = stack.enter_context(CommandEngine(path, options))
        loaded = engine.start()
        facts, digest = facts_of(engine, loaded), ""
        if args.image is not None:
            shown = _show(engine, loaded, args.image, peer)
            tests, digest = [*tests, shown[0]], shown[1]
        if peer is not None:
            from app.bench.against import busy

            result["busy_percent"] = busy()
        for test in tests:
            done = facts | _measure(engine, peer, test, args.r, facts["n_threads"], digest)
            if not args.json:
                lines = [] if result["tests"] else head(bool(args.against))
                print("\n".join([*lines, row(done)]), flush=True)
            result["tests"].append(done)
        if peer is not None:
            peer.close()
        if args.profile or args.trace is not None:
            result |= _profile(engine, tests, args)
    if args.json:
        print_json(result, indent=2)
    return 0


def _options(args: argparse.Namespace) -> "EngineOptions":
    """Return the engine's options for all kinds of measurement. Raises BadSetting."""
    options = engine_options(args, without=OWN)
    if options.prepared is None and not args.load:
        options = replace(options, prepared=0)  # nothing is written while others are measured
    if args.trace is not None and not args.trace.absolute().parent.is_dir():
        raise BadSetting("--trace", str(args.trace), "a file in an existing folder")
    if args.against and options.kv != "f16":
        raise BadSetting("--kv", options.kv, "f16 beside --against, as in the other engine")
    return options


def _speculation(args: argparse.Namespace, options: "EngineOptions") -> int:
    """Print the speed of answers that continue a text, with and without drafted tokens."""
    from app.bench.speculation import run_speculation
    from app.library import resolve, with_draft

    if args.n[0] < 2:
        raise BadSetting("-n", args.n[0], "2 tokens or more beside --spec")
    at_once = args.parallel or [1]
    if not all(at_once):
        raise BadSetting("--parallel", 0, "answers at once, from 1 up")
    path, options = resolve(args.model), with_draft(options)
    run_speculation(path, options, args.spec, args.n[0], args.r, at_once, args.json)
    return 0


def _edited(args: argparse.Namespace, options: "EngineOptions") -> int:
    """Print what edits of results cost."""
    from app.bench.edits import run_edits
    from app.library import resolve

    if args.p[0] < 1 or args.n[0] < 2:
        raise BadSetting("--edits", f"-p {args.p[0]} -n {args.n[0]}", "-p 1 and -n 2, or more")
    sizes = args.p[0], args.n[0]
    run_edits(resolve(args.model), options, args.edits, sizes, args.r, args.json)
    return 0


def _reopened(args: argparse.Namespace, options: "EngineOptions") -> int:
    """Print how soon the first token of a prompt comes, read and restored."""
    from app.bench.reopen import run_reopen
    from app.library import resolve

    run_reopen(resolve(args.model), options, args.p[0], args.r, args.json)
    return 0


def _together(args: argparse.Namespace, options: "EngineOptions") -> int:
    """Several sequences at once, each of `--parallel`."""
    from app.bench.together import run_together
    from app.library import resolve
    from engine.protocol import ParallelTest

    tests = [
        ParallelTest(n_prompt, n_gen, n, args.shared)
        for n_prompt in args.p
        for n_gen in args.n
        for n in args.parallel
    ]
    if not all(test.n_prompt and test.n_gen and test.n_sequences for test in tests):
        raise BadSetting("--parallel", 0, "sequences, and tokens to read and to write, from 1 up")
    run_together(resolve(args.model), options, tests, args.r, bool(args.against), args.json)
    return 0


def _loads(args: argparse.Namespace, options: "EngineOptions") -> int:
    from app.bench.facts import model_facts
    from app.bench.loads import compare_loads
    from app.bench.printing import load_lines
    from app.library import resolve

    loaded, compared = compare_loads(resolve(args.model), options, args.r, bool(args.against))
    facts = {"backends": loaded.device, "n_ctx": loaded.n_ctx, **model_facts(loaded)}
    result = facts | compared.as_json()
    if args.json:
        print_json(result, indent=2)
    else:
        print("\n".join(load_lines(result)))
    return 0


def _measure(
    engine: "CommandEngine",
    peer: "PeerProcess | None",
    test: BenchTest,
    repetitions: int,
    threads: int,
    digest: str,
) -> dict[str, object]:
    """The row of a test."""
    from app.bench.facts import statistics

    if peer is None:
        return statistics(test, _time(engine, test, repetitions, True, digest))

    from app.bench.against import compare

    def ours(warm_up: bool) -> int:
        (ns,) = _time(engine, test, 1, warm_up, digest)
        return ns

    compared = compare(test, repetitions, ours, engine.worker.pid, peer, threads)
    return statistics(test, compared.samples_ns) | compared.as_json()


def _show(
    engine: "CommandEngine", loaded: "Loaded", path: Path, peer: "PeerProcess | None"
) -> tuple[BenchTest, str]:
    """The test of a picture, brought to the engine and to the peer, and its digest."""
    from app.terminal.pictures import PicturesInWorker

    info = PicturesInWorker(engine).send(path)
    if info.plan is None or loaded.vision is None:
        raise CannotSee
    if peer is not None:
        peer.show(path.absolute(), loaded.vision.path)
    return BenchTest(n_rows=info.plan.n_rows), info.digest


def _time(
    engine: "CommandEngine", test: BenchTest, repetitions: int, warm_up: bool, digest: str
) -> list[int]:
    from engine.protocol import Bench

    shown = digest if test.n_rows else ""
    request = Bench(engine.worker.new_id(), test, repetitions, warm_up, shown)
    return engine.get(request).samples_ns


def _profile(
    engine: "CommandEngine", tests: list[BenchTest], args: argparse.Namespace
) -> dict[str, Any]:
    """Profile a batch and a token at every depth in the tests; print and save the profiles."""
    from app.bench.printing import profile_lines
    from app.bench.trace import trace
    from engine.protocol import Profile

    tests = [t for t in tests if not t.n_rows]
    sizes = {min(t.n_prompt, BATCH): PREFILL_STEPS for t in tests if t.n_prompt}
    if any(t.n_gen for t in tests):
        sizes[1] = DECODE_STEPS
    depths = sorted({t.n_depth for t in tests})
    profiles, roof = [], (0.0, 0.0)
    for n_tokens, steps in sizes.items():
        done = engine.get(Profile(engine.worker.new_id(), n_tokens, depths, steps))
        profiles += done.profiles
        roof = (max(roof[0], done.bytes_per_s), max(roof[1], done.flops_per_s))
    if not args.json:
        for profile in profiles:
            print("\n".join(profile_lines(profile, roof)))
    if args.trace is not None:
        with output(args.trace) as file:
            file.write(json.dumps(trace(profiles)).encode())
    return {
        "roof": {"bytes_per_s": roof[0], "flops_per_s": roof[1]},
        "profiles": [{"test": p.name, **msgspec.to_builtins(p)} for p in profiles],
    }


def _tests(args: argparse.Namespace) -> list[BenchTest]:
    """Depth by depth; in each what is read, what is made, and both. Raises BadSetting."""
    tests = []
    for depth in args.d:
        tests += [BenchTest(n_prompt=n, n_depth=depth) for n in args.p if n]
        tests += [BenchTest(n_gen=n, n_depth=depth) for n in args.n if n]
        tests += [BenchTest(p, n, depth) for p, n in args.pg]
    if not tests and args.image is None:
        raise BadSetting("-p and -n", 0, "a test: at least one of them above 0")
    return tests


def _counts(text: str) -> list[int]:
    return [count(part) for part in text.split(",")]


def _pair(text: str) -> tuple[int, int]:
    counts = _counts(text)
    if len(counts) != 2 or not any(counts):
        raise argparse.ArgumentTypeError(f"{text!r} is not P,N, such as 512,128")
    return counts[0], counts[1]
