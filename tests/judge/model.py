"""How fast a card would be, by what compilers made of kernels: no card is needed, and no compiler,
as figures are kept. It is right to about 40 %, until numbers of real cards replace its constants.

    python -m tests.judge.model      a table

A launch of one token's products takes as long as the slowest of three: its bytes from memory, its
instructions, and what waits when all lanes have asked for as much as their registers hold (Little's
law). A prompt's products take as long as their instructions, or their matrix units. So does
attention behind a context of 512 cells, or as long as its keys and values. Each launch has a price
besides, and so has each token on the host.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from engine.backends.opencl.launch import Launch
from engine.graph.tensor import Role, Tensor
from engine.runner.programs import PROMPT, steps
from tests.judge.compilers import DOTS, HALVES, MATRIX, NVIDIA, TARGETS
from tests.judge.figures import Figures
from tests.judge.judge import kept
from tests.judge.plans import TRAITS, Program, built


class Card(NamedTuple):
    """`units` of `lanes` instructions a clock; GB/s; clocks that a load takes; multiply-adds of its
    matrix units a clock and unit, of bytes of two digits or of halves; whether these compute beside
    other instructions. llama.cpp's reported tokens/s of a prompt of 512 of an 8B model, if known.
    """

    target: str
    units: int
    ghz: float
    bandwidth: float
    latency: int
    lanes: int
    matrix: int
    beside: bool = True
    anchor: float = 0.0


CARDS: Mapping[str, Card] = {
    "H200": Card("sm_90", 132, 1.83, 4800, 700, 128, 1024),
    # 8,381 t/s of a 7B in halves, in llama.cpp's pull request 6017.
    "A100 80 GB": Card("sm_80", 108, 1.41, 2039, 600, 128, 1024, anchor=8381 * 7 / 8),
    "RTX 4090": Card("sm_80", 128, 2.52, 1008, 650, 128, 512, anchor=7980 * 7 / 8),
    "RTX 3090": Card("sm_80", 82, 1.70, 936, 600, 128, 512, anchor=4753),
    "RTX 3060": Card("sm_80", 28, 1.78, 360, 600, 128, 512),
    "RX 7900 XTX": Card("gfx1100", 96, 2.4, 960, 700, 64, 256, False, anchor=3227),
    # 1,457 t/s of a 9B by llama.cpp's SYCL, in its pull request 22066.
    "Arc A770": Card("dg2", 32, 2.1, 560, 700, 128, 1024, anchor=1457 * 9 / 8),
}
"""Vendors' numbers; anchors: the design's, of 7B and 8B models."""

NORMED_CLOCKS, MERGE_S = 600, 1.5e-6
"""Clocks in which a group makes the row that it multiplies, after it is loaded; what the last group
of attention takes to merge the shares.
"""

REACHED = 0.92
"""Of a memory's bandwidth, that any kernel reaches."""

LAUNCH_S, SMALL_S, HOST_S = 2.0e-6, 3.5e-6, 6e-4
"""From one launch to the next; what one takes that does little; reading logits and sampling."""

BUSY = 0.7
"""Of the clocks in which a prompt's products could start an instruction, those in which they do."""

OTHER_REGISTERS = 20
"""Those of a lane that hold no number on its way from memory."""

ATTENTION, CACHE = ("attention_lanes", "attention_wide"), 3
"""Families that read keys and values; how many times faster a last cache is than memory."""

LANES_EACH, PLAIN_EACH = 3.0, 2.0
"""Instructions of a lane for a multiply-add of attention: of `attention_lanes` 28 for 16 of scores,
and 17 for 4 of values, by its source; and of fragments without matrix units.
"""

QUERIES_TWICE = 1.5
"""Fragments of attention for those of one product: queries are two halves, exponentials are one."""

_OF_PAIRS = 4.0
"""Instructions a weight where pairs are multiplied, the loads of one block before the next's."""

BYTES_OF_BLOCK = 592
"""Of a block of 32 rows of Q4_K."""


class Speed(NamedTuple):
    """Tokens a second, and the part of the bandwidth that weights of one token take."""

    decode: float
    bandwidth: float
    prefill: float


def weights_of(launch: Launch) -> list[Tensor]:
    """What a launch reads of the model."""
    tensors = (arg for arg in launch.args.values() if isinstance(arg, Tensor))
    return [t for t in tensors if t.role is Role.WEIGHT and t.shape[1] > 1]


def _bytes(launch: Launch) -> int:
    return sum(t.nbytes for t in weights_of(launch))


def _elements(launch: Launch) -> int:
    return sum(t.nelements for t in weights_of(launch))


def one_row(card: Card, launch: Launch, figure: Figures, blocks: float) -> float:
    """Seconds of a product of one row. Of a kernel's loads those of so many `blocks` are on their
    way at once.
    """
    clocks = card.units * card.ghz * 1e9
    waves = min(prod(launch.global_size) / 32 / card.units, figure.occupancy)
    issue = _elements(launch) * figure.each / (card.lanes * clocks)
    waiting = _bytes(launch) * card.latency / (waves * blocks * BYTES_OF_BLOCK * clocks)
    memory = _bytes(launch) / (REACHED * card.bandwidth * 1e9)
    # Filling the units with loads at the beginning, and the sums at the end.
    return max(memory, issue, waiting) + 2 * card.latency / (card.ghz * 1e9) + LAUNCH_S


def normed_s(card: Card, launch: Launch) -> float:
    """Seconds in which the groups of a unit normalise the row, one group after the other."""
    if "NORMED" not in launch.defines:
        return 0.0
    groups = prod(launch.global_size) / prod(launch.local_size or (1,)) / card.units
    return (max(1.0, groups) * NORMED_CLOCKS + 2 * card.latency) / (card.ghz * 1e9)


def blocks_of(figure: Figures) -> float:
    """Blocks whose words a lane's registers hold at once."""
    if figure.each > _OF_PAIRS:
        return 1.0
    return max(1.0, (figure.registers - OTHER_REGISTERS) * 4 * 32 / BYTES_OF_BLOCK / 2)


def many_rows(card: Card, launch: Launch, figure: Figures, rows: int) -> float:
    """Seconds of a product of a prompt's rows."""
    clocks = card.units * card.ghz * 1e9
    made = _elements(launch) * rows
    issue, unit = made * figure.each / (card.lanes * clocks), made / (card.matrix * clocks)
    return (max(issue, unit) if card.beside else issue + unit) / BUSY + LAUNCH_S


def attention_s(card: Card, launch: Launch) -> float:
    """Seconds of attention: what its groups read from memory or from the last cache, its
    instructions, or its matrix units. A prompt's queries see half of the cells.
    """
    q, k, v = (launch.args[name] for name in "qkv")
    assert isinstance(q, Tensor)
    assert isinstance(k, Tensor)
    assert isinstance(v, Tensor)
    clocks = card.units * card.ghz * 1e9
    tokens, heads, kv_heads = q.shape[2], q.shape[1], k.shape[1]
    seen = PROMPT / 2 if tokens > 1 else PROMPT
    made = tokens * heads * seen * (k.shape[0] + v.shape[0])
    tiles = -(-tokens * heads // kv_heads // int(launch.defines["ROWS"]))
    read = tiles * kv_heads * seen * (k.shape[0] + v.shape[0]) * k.nbytes / k.nelements
    # A prompt's keys are in the last cache behind the first tile.
    reading = read / (REACHED * card.bandwidth * 1e9 * (CACHE if tokens > 1 else 1))
    if launch.family == "attention_wide" and "MATRIX" in launch.defines:
        computing = QUERIES_TWICE * made / (card.matrix * clocks) / BUSY
    else:
        each = PLAIN_EACH if launch.family == "attention_wide" else LANES_EACH
        computing = made * each / (card.lanes * clocks) / BUSY
    return max(reading, computing)


def step_s(card: Card, launches: Iterable[Launch], known: Mapping[str, Figures]) -> float:
    """Seconds of all launches of a step."""
    total = 0.0
    for launch in launches:
        figure = known.get(Program.of(launch).name)
        if launch.family == "matmul_tiled" and figure is not None and figure.each:
            total += one_row(card, launch, figure, blocks_of(figure)) + normed_s(card, launch)
        elif launch.family == "matmul_wide":
            total += many_rows(card, launch, known[Program.of(launch).name], PROMPT)
        else:
            total += attention_s(card, launch) if launch.family in ATTENTION else 0
            total += SMALL_S + LAUNCH_S + (MERGE_S if "MERGES" in launch.defines else 0)
    return total


@cache
def _figures(target: str) -> Mapping[str, Figures]:
    return {name: found[target] for name, found in kept().kernels.items() if target in found}


@cache
def _steps(target: str, units: int, small: bool) -> Mapping[str, list[Launch]]:
    traits = replace(TRAITS, dot4=DOTS[target], matrix=MATRIX[target], compute_units=units)
    traits = replace(traits, halves=HALVES[target])
    if small or TARGETS[target] != NVIDIA:
        traits = replace(traits, max_work_group=256)
    with TemporaryDirectory() as folder:
        return steps(built(Path(folder), "8b"), traits)


def _known(launch: Launch, target: str) -> Launch:
    """The launch with the team of the figures: these are of a device of other size."""
    found = _figures(target)
    for team in (launch.defines.get("TEAM"), 8, 16, 32):
        one = replace(launch, defines={**launch.defines, "TEAM": team}) if team else launch
        if Program.of(one).name in found:
            return one
    return launch


def speed(card: Card, old: Figures | None = None) -> Speed:
    """Of 8B Q4_K_M on a card; products of one row as `old` and in small groups, if there is one."""
    made = _steps(card.target, card.units, old is not None)
    known = _figures(card.target)
    each = {name: [_known(one, card.target) for one in made[name]] for name in made}
    if old is not None:
        tiled = [one for one in each["decode"] if one.family == "matmul_tiled"]
        known = {**known, **{Program.of(one).name: old for one in tiled}}
    decode = step_s(card, each["decode"], known) + HOST_S
    read = sum(map(_bytes, each["decode"]))
    prefill = step_s(card, each["prefill"], known) + HOST_S
    return Speed(1 / decode, read / decode / (card.bandwidth * 1e9), PROMPT / prefill)


def main() -> None:
    """Print the table."""
    print(f"{'8B Q4_K_M':12}{'decode t/s':>11}{'of bandwidth':>13}{'prefill t/s':>12}  llama.cpp's")
    for name, card in CARDS.items():
        found = speed(card)
        against = f"{found.prefill / card.anchor:.0%} of {card.anchor:.0f}" if card.anchor else "-"
        print(
            f"{name:12}{found.decode:11.0f}{found.bandwidth:13.0%}{found.prefill:12.0f}  {against}"
        )


if __name__ == "__main__":
    main()
