"""Reads and writes with edits of results and without, in turn: `cutaway bench --edits N`."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from app.bench.facts import facts_of
from app.bench.printing import line
from app.terminal.engine import CommandEngine
from app.terminal.text import print_json
from engine.errors import BadSetting
from engine.gguf.reader import open_gguf
from engine.protocol import Edit, Finished, Generate, Sampling, Stats
from engine.settings import EngineOptions

SITES = ("residual", "feed_forward", "attention")


@dataclass
class EditTurns:
    """Statistics of answers of the plain model and of the edited one."""

    plain: list[Stats] = field(default_factory=list)
    edited: list[Stats] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Rates in tokens per second, medians; ratios of times, edited to plain, of pairs of turns:
        above 1 edits are slower.
        """
        pairs = list(zip(self.plain, self.edited, strict=True))
        prompt = [b.prefill_s / a.prefill_s for a, b in pairs]
        decode = [b.decode_s / a.decode_s for a, b in pairs]
        return {
            "n_prompt": self.plain[0].n_prompt,
            "n_gen": self.plain[0].n_generated,
            "plain_pp_ts": median(one.prefill_rate for one in self.plain),
            "edited_pp_ts": median(one.prefill_rate for one in self.edited),
            "plain_tg_ts": median(one.decode_rate for one in self.plain),
            "edited_tg_ts": median(one.decode_rate for one in self.edited),
            "ratio_pp": median(prompt),
            "ratio_tg": median(decode),
            "ratios_pp": prompt,
            "ratios_tg": decode,
        }


def run_edits(
    path: Path,
    options: EngineOptions,
    n_edits: int,
    sizes: tuple[int, int],
    repetitions: int,
    as_json: bool,
) -> None:
    """Prints each turn of a prompt and an answer of these sizes. Raises as `cutaway bench`."""
    n_prompt, n_gen = sizes
    opened = replace(options, ctx=options.ctx or n_prompt + n_gen, parallel=1, cells=0)
    random, turns, edits = np.random.default_rng(0), EditTurns(), _edits(n_edits, *_layers(path))
    with CommandEngine(path, opened) as engine:
        loaded = engine.start()
        facts = facts_of(engine, loaded)
        for i in range(-1, repetitions):
            order = [(turns.plain, []), (turns.edited, edits)]
            for found, how in order if i % 2 == 0 else reversed(order):
                prompt = random.integers(0, loaded.n_vocab, n_prompt).tolist()
                stats = _answered(engine, prompt, n_gen, how)
                if i >= 0:  # the first turn builds plans
                    found.append(stats)
            if i >= 0 and not as_json:
                head = [line(_COLUMNS), line(("---:",) * len(_COLUMNS))] if i == 0 else []
                print("\n".join([*head, _row(turns.plain[i], turns.edited[i])]), flush=True)
    made = {"n_edits": n_edits, **turns.as_json()}
    if as_json:
        print_json({"facts": facts, "edits": made}, indent=2)
        return
    print(f"{n_edits} edits: median time {_times(made['ratio_pp'], made['ratio_tg'])}")


def _layers(path: Path) -> tuple[int, int]:
    """Layers of a model, and numbers of a token in what leaves one."""
    with open_gguf(path) as file:
        return file.metadata.get("block_count", int), file.metadata.get("embedding_length", int)


def _edits(n: int, layers: int, width: int) -> list[Edit]:
    """So many results, each plus a vector times 0: what they cost, and the same answer."""
    if not 1 <= n <= len(SITES) * layers:
        raise BadSetting("--edits", n, f"1 to {len(SITES) * layers} for {layers} layers")
    vector = np.ones(width, np.float32)
    where = [(site, layer) for site in SITES for layer in range(layers)]
    return [Edit.add(site, layer, vector, 0.0) for site, layer in where[:n]]


def _answered(engine: CommandEngine, prompt: list[int], n: int, edits: list[Edit]) -> Stats:
    request = Generate(
        engine.new_id(),
        prompt_tokens=prompt,
        sampling=Sampling(temperature=0),
        max_tokens=n,
        endless=True,
        edits=edits,
    )
    *_, done = engine.send_together([request])
    assert isinstance(done, Finished)
    return done.stats


_COLUMNS = ("prompt t/s", "edited", "time", "write t/s", "edited", "time")


def _row(plain: Stats, edited: Stats) -> str:
    reads, writes = (
        (f"{a:.1f}", f"{b:.1f}", f"{a / b:.3f}")
        for a, b in (
            (plain.prefill_rate, edited.prefill_rate),
            (plain.decode_rate, edited.decode_rate),
        )
    )
    return line((*reads, *writes))


def _times(prompt: float, decode: float) -> str:
    return f"{prompt:.3f} times of the prompt, {decode:.3f} times of a token"
