"""Several sequences at once, ours and llama.cpp's in turn: `cutaway bench --parallel`."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from app.bench.against import NAME_OF_PEER, PeerProcess, busy, stopped
from app.bench.facts import facts_of
from app.terminal.engine import CommandEngine
from app.terminal.text import print_json
from engine.protocol import BenchParallel, ParallelTest
from engine.settings import EngineOptions

Times = tuple[int, int]
"""Nanoseconds of reading and of writing."""


@dataclass
class Turns:
    """Times of a test at each turn; the peer's by its flash attention."""

    test: ParallelTest
    ours: list[Times] = field(default_factory=list)
    theirs: dict[bool, list[Times]] = field(default_factory=lambda: {True: [], False: []})

    def as_json(self) -> dict[str, Any]:
        """By the names of llama.cpp's batched bench, times in seconds; `ratio` of writing, above 1
        we are faster; `theirs` with the flash attention that makes it write faster.
        """
        row = _row(self.test, self.ours)
        if not any(self.theirs.values()):
            return row
        rows = {flash: _row(self.test, times) for flash, times in self.theirs.items()}
        flash = rows[True]["speed_tg"] >= rows[False]["speed_tg"]
        theirs = rows[flash]
        return row | {
            "theirs": theirs | {"flash_attn": flash},
            "ratio": row["speed_tg"] / theirs["speed_tg"],
            "ratio_pp": row["speed_pp"] / theirs["speed_pp"],
        }


def _row(test: ParallelTest, times: Sequence[Times]) -> dict[str, Any]:
    read, write = (median(one[i] for one in times) / 1e9 for i in (0, 1))
    n_read = test.n_prompt * (1 if test.is_shared else test.n_sequences)
    n_written = test.n_gen * test.n_sequences
    return {
        "pp": test.n_prompt,
        "tg": test.n_gen,
        "pl": test.n_sequences,
        "n_kv": test.n_kv,
        "t_pp": read,
        "speed_pp": n_read / read,
        "t_tg": write,
        "speed_tg": n_written / write,
        "t": read + write,
        "speed": (n_read + n_written) / (read + write),
    }


def run_together(
    path: Path,
    options: EngineOptions,
    tests: Sequence[ParallelTest],
    repetitions: int,
    against: bool,
    as_json: bool,
) -> None:
    """Prints each test as it is done. Raises as `cutaway bench`."""
    most = max(test.n_sequences for test in tests)
    longest = max(test.n_prompt + test.n_gen for test in tests)
    options = replace(options, ctx=options.ctx or longest, parallel=most, cells=most * longest)
    result: dict[str, Any] = {"tests": []}
    with ExitStack() as stack:
        peer = stack.enter_context(PeerProcess(path)) if against else None
        engine = stack.enter_context(CommandEngine(path, options))
        facts = facts_of(engine, engine.start())
        if peer is not None:
            result |= {"peer": {"name": NAME_OF_PEER, **peer.about}, "busy_percent": busy()}
        for test in tests:
            turns = _measured(engine, peer, test, repetitions, facts["n_threads"])
            row = turns.as_json()
            if not as_json:
                first = not result["tests"]
                print("\n".join([*(_head(against) if first else ()), _line(row)]), flush=True)
            result["tests"].append(row)
    if as_json:
        print_json(result | {"facts": facts}, indent=2)


def _measured(
    engine: CommandEngine,
    peer: PeerProcess | None,
    test: ParallelTest,
    repetitions: int,
    threads: int,
) -> Turns:
    """A B A B ... with the peer's flash attention on, then off."""
    turns = Turns(test)

    def ours(warm_up: bool) -> None:
        done = engine.get(BenchParallel(engine.worker.new_id(), test, warm_up))
        turns.ours.append((done.read_ns, done.write_ns))

    for flash in (True, False) if peer is not None else (True,):
        for i in range(repetitions):
            if peer is None:
                ours(i == 0)
                continue
            with stopped(peer.pid):
                ours(flash and i == 0)
            with stopped(engine.worker.pid):
                turns.theirs[flash].append(peer.run_together(test, threads, flash, i == 0))
    return turns


_COLUMNS = ("PP", "TG", "B", "N_KV", "T_PP s", "S_PP t/s", "T_TG s", "S_TG t/s", "T s", "S t/s")


def _head(against: bool) -> Iterator[str]:
    names = (*_COLUMNS, "llama.cpp S_TG", "ratio") if against else _COLUMNS
    yield "| " + " | ".join(names) + " |"
    yield "|" + "|".join(" ---: " for _ in names) + "|"


def _line(row: dict[str, Any]) -> str:
    whole = [str(row[key]) for key in ("pp", "tg", "pl", "n_kv")]
    pairs = (("t_pp", "speed_pp"), ("t_tg", "speed_tg"), ("t", "speed"))
    rates = [text for t, s in pairs for text in (f"{row[t]:.3f}", f"{row[s]:.2f}")]
    cells = [*whole, *rates]
    if "theirs" in row:
        flash = "on" if row["theirs"]["flash_attn"] else "off"
        cells += [f"{row['theirs']['speed_tg']:.2f} (flash attention {flash})"]
        cells += [f"{row['ratio']:.3f}"]
    return "| " + " | ".join(cells) + " |"
