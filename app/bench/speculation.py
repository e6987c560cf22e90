"""Continues a text with and without speculation, in turn: `cutaway bench --spec TEXTFILE`."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from app.bench.facts import facts_of
from app.terminal.engine import CommandEngine
from app.terminal.text import print_json
from engine.errors import BadSetting
from engine.protocol import EncodeText, Finished, Generate, Piece, Sampling, Speculation, Stats
from engine.settings import EngineOptions

LONGEST = 1 << 20
"""Bytes of the text."""
OFF = Speculation("none")


@dataclass
class SpeculationTurns:
    """Statistics and tokens of each turn, without and with."""

    plain: list[Stats] = field(default_factory=list)
    ours: list[Stats] = field(default_factory=list)
    parted: int | None = None
    """The first token that differed, which a near tie may do."""

    def as_json(self) -> dict[str, Any]:
        """Rates in tokens per second, medians; `ratio` of each pair of turns, above 1 speculation
        is faster.
        """
        pairs = zip(self.plain, self.ours, strict=True)
        ratios = [one.decode_rate / other.decode_rate for other, one in pairs]
        return {
            "n_gen": self.ours[0].n_generated,
            "plain_ts": median(one.decode_rate for one in self.plain),
            "spec_ts": median(one.decode_rate for one in self.ours),
            "ratio": median(ratios),
            "ratios": ratios,
            "n_drafted": sum(one.n_drafted for one in self.ours),
            "n_accepted": sum(one.n_accepted for one in self.ours),
            "parted": self.parted,
        }


def run_speculation(
    path: Path,
    options: EngineOptions,
    text_file: Path,
    n_tokens: int,
    repetitions: int,
    as_json: bool,
) -> None:
    """Prints the result of each turn. Raises as `cutaway bench`."""
    text = _text(text_file)
    with CommandEngine(path, replace(options, ctx=options.ctx or 8192)) as engine:
        facts = facts_of(engine, engine.start())
        prompt = engine.get(EncodeText(engine.new_id(), text)).tokens
        room = facts["n_ctx"] - n_tokens
        if not 1 <= len(prompt) <= room:
            expected = f"a text of 1 to {room} tokens; set --ctx"
            raise BadSetting("--spec", f"{len(prompt)} tokens", expected)
        turns = SpeculationTurns()
        drafts = Speculation("auto" if options.spec_type == "none" else options.spec_type)
        for i in range(repetitions):
            turns.plain.append((without := _answer(engine, prompt, n_tokens, OFF))[0])
            turns.ours.append((made := _answer(engine, prompt, n_tokens, drafts))[0])
            if turns.parted is None:
                pairs = enumerate(zip(without[1], made[1], strict=False))
                turns.parted = next((at for at, (one, other) in pairs if one != other), None)
            if not as_json:
                first = [] if i else [_line(_COLUMNS), "|" + "|".join([" ---: "] * 5) + "|"]
                print("\n".join([*first, _row(turns, i)]), flush=True)
        if as_json:
            print_json({"facts": facts, "speculation": turns.as_json()}, indent=2)
        else:
            print("\n".join(_summary(turns)), flush=True)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(LONGEST).decode("utf-8", "replace")
    except OSError as error:
        raise BadSetting("--spec", str(path), f"a readable text file ({error.strerror})") from None


def _answer(
    engine: CommandEngine, prompt: list[int], n: int, speculation: Speculation
) -> tuple[Stats, list[int]]:
    """The likeliest continuation, of so many tokens."""
    request = Generate(
        engine.new_id(),
        prompt_tokens=prompt,
        sampling=Sampling(temperature=0),
        max_tokens=n,
        endless=True,
        speculation=speculation,
    )
    tokens: list[int] = []
    for reply in engine.ask(request, bar=False):
        if isinstance(reply, Piece):
            tokens += [info.token for info in reply.tokens]
        elif isinstance(reply, Finished):
            return reply.stats, tokens
    raise AssertionError("an answer ends with Finished")


_COLUMNS = ("plain t/s", "speculation t/s", "ratio", "drafted", "accepted")


def _row(turns: SpeculationTurns, i: int) -> str:
    plain, ours = turns.plain[i], turns.ours[i]
    ratio = ours.decode_rate / plain.decode_rate
    rates = [f"{one:.2f}" for one in (plain.decode_rate, ours.decode_rate, ratio)]
    return _line((*rates, str(ours.n_drafted), str(ours.n_accepted)))


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |"


def _summary(turns: SpeculationTurns) -> Iterator[str]:
    found = turns.as_json()
    low, high = min(found["ratios"]), max(found["ratios"])
    yield f"median ratio {found['ratio']:.2f} ({low:.2f} to {high:.2f})"
    if turns.parted is None:
        yield "the same tokens with and without"
    else:
        yield f"the tokens differ from token {turns.parted} on, as where two are nearly as likely"
