"""What looking costs an answer: time per token with each kind of looking over that without.

    python -m tests.cost MODEL [--device intel:0] [-n 256] [-r 9]

Plain answers stand between the others, and each is compared with the two beside it, so that what
else the machine does hurts little: a median and a range of such ratios are printed, by the clock
and by the processor time of the engine's process. Promised are at most 2 % watched (Memory and
Graph shown), 5 % probed (all l_out), and 10 % live (the Token view).
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psutil

from engine.protocol import Finished, Generate, Live, Load, Sampling
from engine.settings import EngineOptions
from engine.worker import Worker

WARM = 4
"""Tokens of an answer before, so that plans are there, as they are in a chat from its second on."""

PROMPT = "The history of computing began long before"
ENDLESS = Sampling(temperature=0, frequency_penalty=-100)


class Kind(NamedTuple):
    """What is looked at during an answer."""

    name: str
    live: Live
    watch: bool


PLAIN = Kind("plain", Live(), watch=False)
KINDS = (
    PLAIN,  # what the noise is
    Kind("watched", Live(), watch=True),
    Kind("probed", Live(probes=[r"l_out-\d+"]), watch=False),
    Kind("live", Live(lens=True, attention=True, choice=True, step=True), watch=True),
    Kind("recorded", Live(record=True), watch=False),
)


class Seconds(NamedTuple):
    """Of one token: by the clock, and of processors in the engine."""

    clock: float
    processor: float


class Ratios(NamedTuple):
    """Of one kind to plain answers, one a round."""

    name: str
    clock: list[float]
    processor: list[float]


def measure(model: Path, options: EngineOptions, n: int, rounds: int) -> list[Ratios]:
    """Every kind in turn, `rounds` times, each of `n` tokens between two plain answers."""
    with Worker() as worker:
        worker.get(Load(worker.new_id(), str(model), options))
        for kind in KINDS:  # plans and caches
            answer(worker, kind, n)
        found = [Ratios(kind.name, [], []) for kind in KINDS]
        before = answer(worker, PLAIN, n)
        for _ in range(rounds):
            for kind, ratios in zip(KINDS, found, strict=True):
                answer(worker, kind, WARM)
                one = answer(worker, kind, n)
                after = answer(worker, PLAIN, n)
                plain = [(a + b) / 2 for a, b in zip(before, after, strict=True)]
                ratios.clock.append(one.clock / plain[0])
                ratios.processor.append(one.processor / plain[1] if plain[1] else 1.0)
                before = after
    return found


def answer(worker: Worker, kind: Kind, n: int) -> Seconds:
    """A token's share of an answer, from the first token on."""
    process = psutil.Process(worker.pid)
    request = Generate(
        worker.new_id(),
        prompt=PROMPT,
        sampling=ENDLESS,
        max_tokens=n,
        live=kind.live,
        watch=kind.watch,
    )
    before = process.cpu_times()
    *_, last = worker.run(request)
    after = process.cpu_times()
    assert isinstance(last, Finished)
    taken = after.user + after.system - before.user - before.system
    return Seconds(last.stats.decode_s / max(1, last.stats.n_generated - 1), taken / n)


def told(ratios: Ratios) -> str:
    """A line of the table: how many percent slower, the median and the range."""
    percent = [[100 * (ratio - 1) for ratio in of] for of in (ratios.clock, ratios.processor)]
    parts = [f"{median(of):+6.1f} % ({min(of):+.1f} to {max(of):+.1f})" for of in percent]
    return f"{ratios.name:10}{parts[0]:34}{parts[1]}"


def main(given: Sequence[str] | None = None) -> int:
    """Prints a line a kind."""
    parser = argparse.ArgumentParser(prog="python -m tests.cost", description=__doc__)
    parser.add_argument("model", type=Path, help="path of a GGUF file")
    parser.add_argument("--device", help="the first that layers are put on if left out")
    parser.add_argument("-n", type=int, default=256, help="tokens of an answer (256)")
    parser.add_argument("-r", type=int, default=9, help="rounds (9)")
    parser.add_argument("--json", action="store_true", help="all ratios, for programs")
    args = parser.parse_args(given)
    options = EngineOptions(device=args.device, ctx=max(256, 2 * args.n))
    found = measure(args.model, options, args.n, args.r)
    if args.json:
        print(json.dumps([ratios._asdict() for ratios in found]))
        return 0
    print(f"{'':10}{'by the clock':34}by processor time")
    for ratios in found:
        print(told(ratios))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
