"""Continues a text with and without speculation, in turn: `cutaway bench --spec TEXTFILE`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from app.bench.facts import facts_of
from app.bench.printing import line
from app.terminal.engine import CommandEngine
from app.terminal.text import print_json
from engine.errors import BadSetting
from engine.protocol import EncodeText, Finished, Generate, Piece, Sampling, Speculation, Stats
from engine.settings import EngineOptions

LONGEST = 1 << 20
"""Bytes of the text."""
OFF = Speculation("none")


@dataclass
class Turn:
    """The answers of a turn, written at once."""

    tokens: list[list[int]]
    stats: list[Stats]

    @property
    def rate(self) -> float:
        """Tokens per second of all after the first of each, until the last one ends."""
        seconds = max(one.decode_s for one in self.stats)
        return sum(one.n_generated - 1 for one in self.stats) / seconds


@dataclass
class SpeculationTurns:
    """Turns of so many answers at once, without and with."""

    n_sequences: int
    plain: list[Turn] = field(default_factory=list)
    ours: list[Turn] = field(default_factory=list)

    @property
    def parted(self) -> int | None:
        """The first token that differed, which a near tie may do; later ones do as they follow."""
        pairs = zip(self.plain[0].tokens, self.ours[0].tokens, strict=True)
        found = [
            at
            for one, other in pairs
            for at, (a, b) in enumerate(zip(one, other, strict=False))
            if a != b
        ]
        return min(found, default=None)

    def as_json(self) -> dict[str, Any]:
        """Rates in tokens per second, medians; `ratio` of each pair of turns, above 1 speculation
        is faster.
        """
        pairs = zip(self.plain, self.ours, strict=True)
        ratios = [one.rate / other.rate for other, one in pairs]
        drafting = [stats for one in self.ours for stats in one.stats]
        return {
            "pl": self.n_sequences,
            "n_gen": self.ours[0].stats[0].n_generated,
            "plain_ts": median(one.rate for one in self.plain),
            "spec_ts": median(one.rate for one in self.ours),
            "ratio": median(ratios),
            "ratios": ratios,
            "n_drafted": sum(one.n_drafted for one in drafting),
            "n_accepted": sum(one.n_accepted for one in drafting),
            "parted": self.parted,
        }


def run_speculation(
    path: Path,
    options: EngineOptions,
    text_file: Path,
    n_tokens: int,
    repetitions: int,
    parallel: Sequence[int],
    as_json: bool,
) -> None:
    """Prints the result of each turn, of so many answers at once. Raises as `cutaway bench`."""
    text = _text(text_file)
    ctx, most = options.ctx or 8192, max(parallel)
    kind = "auto" if options.spec_type == "none" else options.spec_type
    opened = replace(options, ctx=ctx, parallel=most, cells=0, spec_type=kind)
    drafts = Speculation(kind)
    rows: list[dict[str, Any]] = []
    with CommandEngine(path, opened) as engine:
        facts = facts_of(engine, engine.start())
        prompt = engine.get(EncodeText(engine.new_id(), text)).tokens
        room = facts["n_ctx"] - n_tokens
        if not 1 <= len(prompt) <= room:
            expected = f"a text of 1 to {room} tokens; set --ctx"
            raise BadSetting("--spec", f"{len(prompt)} tokens", expected)
        for n in parallel:
            turns = SpeculationTurns(n)
            for i in range(repetitions):
                order = ((turns.plain, OFF), (turns.ours, drafts))
                for found, how in order if i % 2 == 0 else reversed(order):
                    found.append(_turn(engine, _prompts(prompt, n), n_tokens, how))
                if not as_json:
                    first = [] if i or rows else [line(_COLUMNS), _RULE]
                    print("\n".join([*first, _row(turns, i)]), flush=True)
            rows.append(turns.as_json())
            if not as_json:
                print("\n".join(_summary(rows[-1])), flush=True)
        if as_json:
            print_json({"facts": facts, "speculation": rows}, indent=2)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(LONGEST).decode("utf-8", "replace")
    except OSError as error:
        raise BadSetting("--spec", str(path), f"a readable text file ({error.strerror})") from None


def _prompts(prompt: list[int], n: int) -> list[list[int]]:
    """Beginnings of the text that end at other places of its second half, the whole one first."""
    return [prompt[: max(1, len(prompt) - i * len(prompt) // (2 * n))] for i in range(n)]


def _turn(
    engine: CommandEngine, prompts: list[list[int]], n: int, speculation: Speculation
) -> Turn:
    """The likeliest continuation of each, of so many tokens, all at once."""
    requests = [
        Generate(
            engine.new_id(),
            prompt_tokens=prompt,
            sampling=Sampling(temperature=0),
            max_tokens=n,
            endless=True,
            speculation=speculation,
        )
        for prompt in prompts
    ]
    tokens: dict[int, list[int]] = {request.id: [] for request in requests}
    stats: dict[int, Stats] = {}
    for reply in engine.send_together(requests):
        if isinstance(reply, Piece):
            tokens[reply.id] += [info.token for info in reply.tokens]
        elif isinstance(reply, Finished):
            stats[reply.id] = reply.stats
    return Turn(list(tokens.values()), [stats[number] for number in tokens])


_COLUMNS = ("at once", "plain t/s", "speculation t/s", "ratio", "drafted", "accepted")
_RULE = "|" + "|".join([" ---: "] * len(_COLUMNS)) + "|"


def _row(turns: SpeculationTurns, i: int) -> str:
    plain, ours = turns.plain[i], turns.ours[i]
    rates = [f"{one:.2f}" for one in (plain.rate, ours.rate, ours.rate / plain.rate)]
    drafted = sum(one.n_drafted for one in ours.stats)
    accepted = sum(one.n_accepted for one in ours.stats)
    return line((str(turns.n_sequences), *rates, str(drafted), str(accepted)))


def _summary(found: dict[str, Any]) -> Iterator[str]:
    low, high, at = min(found["ratios"]), max(found["ratios"]), found["parted"]
    yield f"{found['pl']} at once: median ratio {found['ratio']:.2f} ({low:.2f} to {high:.2f})"
    if at is None:
        yield "the same tokens with and without"
    else:
        yield f"the tokens differ from token {at} on, as where two are nearly as likely"
