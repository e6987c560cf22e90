"""How long who reads an answer waits between two tokens, alone and while a long prompt arrives.

    python -m tests.gaps MODEL [--device intel:0] [-n 300] [-p 4000] [--writers 1]

Promised is that the 95th percentile while the prompt is read is at most twice that alone; one step
in thirty-six may take a tenth of a second for the prompt.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import numpy as np

from engine.protocol import Cancel, Failed, Finished, Generate, Load, Loaded, Piece, Sampling
from engine.settings import EngineOptions
from engine.worker import Worker

WARM = 40
"""Tokens written before anything counts."""


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.gaps")
    parser.add_argument("model", type=Path)
    parser.add_argument("--device")
    parser.add_argument("-n", type=int, default=300, help="tokens of the answer alone")
    parser.add_argument("-p", type=int, default=4000, help="tokens of the prompt")
    parser.add_argument("--writers", type=int, default=1, help="answers that are written")
    args = parser.parse_args(argv)
    options = EngineOptions(args.device, ctx=args.p + 100, parallel=args.writers + 1, cells=0)
    with Worker() as worker:
        assert isinstance(worker.get(Load(worker.new_id(), str(args.model), options)), Loaded)
        _read(worker, args.p // 8)  # plans and kernels of the sizes are there
        print(json.dumps(_measure(worker, args)))


def _measure(worker: Worker, args: argparse.Namespace) -> dict[str, float]:
    writers = [_ask(worker, [5 + i, 6, 7], 1 << 20) for i in range(args.writers)]
    _gaps(worker, writers[0], WARM)
    _gaps(worker, writers[0], until=_ask(worker, _ids(args.p // 4, 1), 1))  # the pace is known
    alone = _gaps(worker, writers[0], args.n)
    begun = perf_counter()
    loaded = _gaps(worker, writers[0], until=_ask(worker, _ids(args.p, 2), 1))
    took = perf_counter() - begun
    for number in writers:
        worker.send(Cancel(number))
    p95 = [float(np.percentile(gaps, 95)) for gaps in (alone, loaded)]
    return {
        "alone_p50_ms": 1e3 * float(np.median(alone)),
        "alone_p95_ms": 1e3 * p95[0],
        "loaded_p50_ms": 1e3 * float(np.median(loaded)),
        "loaded_p95_ms": 1e3 * p95[1],
        "loaded_max_ms": 1e3 * max(loaded),
        "ratio_p95": p95[1] / p95[0],
        "prompt_s": took,
        "tokens_meanwhile": len(loaded),
    }


def _ids(n: int, seed: int) -> list[int]:
    return [int(i) for i in np.random.default_rng(seed).integers(1000, 20000, n)]


def _ask(worker: Worker, ids: list[int], n: int) -> int:
    sampling = Sampling(temperature=0)
    request = Generate(
        worker.new_id(), prompt_tokens=ids, sampling=sampling, max_tokens=n, endless=True
    )
    worker.send(request)
    return request.id


def _read(worker: Worker, n: int) -> None:
    number = _ask(worker, _ids(n, 3), 1)
    while not isinstance(reply := worker.receive(), Finished) or reply.id != number:
        assert not isinstance(reply, Failed), reply


def _gaps(worker: Worker, number: int, n: int = 1 << 30, until: int = 0) -> list[float]:
    """Seconds between an answer's pieces, of so many, or until another request ends."""
    gaps: list[float] = []
    before = None
    while len(gaps) < n:
        reply = worker.receive(60)
        assert reply is not None
        assert not isinstance(reply, Failed), reply
        if isinstance(reply, Finished) and reply.id == until:
            break
        if isinstance(reply, Piece) and reply.id == number:
            now = perf_counter()
            if before is not None:
                gaps.append(now - before)
            before = now
    return gaps


if __name__ == "__main__":
    main()
