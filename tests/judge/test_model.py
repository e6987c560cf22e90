"""By the model a change that takes more instructions, or fewer groups, is seen before any card has
it; on each card decode and prefill reach their goals.
"""

from dataclasses import replace
from math import prod
from pathlib import Path

import pytest

from engine.backends.opencl.launch import DeviceTraits
from engine.backends.opencl.lowering.fusions import PATTERNS
from engine.gguf.formats import Q4_K
from engine.runner.programs import steps
from tests.judge.figures import Figures
from tests.judge.model import CARDS, attention_s, speed
from tests.judge.plans import TRAITS, built
from tests.kernels.test_matmul_lanes import launches

SINCE = {"norm_matmul", "norm_gated", "feed_chain", "attention_merged", "attention_stored"}
"""Fusions of lanes that there were not."""
TODAY = {"H200": 232, "A100 80 GB": 184, "RTX 4090": 147, "RTX 3090": 132}
"""Tokens a second of the kernels before these, by the design's own model."""


@pytest.mark.parametrize("name", CARDS)
def test_decode_reaches_a_part_of_the_bandwidth(name: str) -> None:
    """The faster a memory, the more launches cost."""
    card = CARDS[name]
    least = 0.6 if card.bandwidth <= 2100 else 0.4
    assert least <= speed(card).bandwidth < 0.92


@pytest.mark.parametrize("name", [name for name, card in CARDS.items() if card.anchor])
def test_prompts_are_half_as_fast_as_by_llama_cpp(name: str) -> None:
    assert speed(CARDS[name]).prefill >= 0.5 * CARDS[name].anchor


@pytest.mark.parametrize("name", TODAY)
def test_kernels_of_four_bytes_a_load_were_as_slow_as_the_design_found(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """5.3 instructions a weight, one block on its way, teams of eight, norms and merges in launches
    of their own: what the model is worth.
    """
    before = {pattern.name for pattern in PATTERNS} - SINCE
    monkeypatch.setenv("CUTAWAY_FUSE", ",".join(before))
    old = Figures(45, 0, 44, {}, 170, 22, each=5.3)
    found = speed(CARDS[name], old=old).decode
    assert 0.8 < found / TODAY[name] < 1.25


@pytest.mark.parametrize("units", [28, 64, 108, 132])
def test_a_token_takes_at_most_200_launches(units: int, tmp_path: Path) -> None:
    """Products normalise their row themselves; attention turns, stores and merges."""
    traits = replace(TRAITS, dot4="NVIDIA", matrix="IMMA", compute_units=units)
    decode = steps(built(tmp_path, "8b"), traits)["decode"]
    assert 150 < len(decode) <= 200
    assert sum(one.family == "attention_lanes" for one in decode) == 32
    assert sum("NORMED" in one.defines for one in decode) >= 64


def test_attention_costs_what_it_reads_and_computes(tmp_path: Path) -> None:
    """A prompt's with matrix units less than a fifth of that whose groups make four queries each;
    one token's as long as its keys and values come from memory.
    """
    card = CARDS["RTX 3090"]
    traits = replace(TRAITS, dot4="NVIDIA", matrix="IMMA", halves="HMMA")
    made = {
        (own, name): next(one for one in found if one.family.startswith("attention_"))
        for own in (True, False)
        for name, found in steps(
            built(tmp_path, "8b"), replace(traits, own_local_memory=own)
        ).items()
    }
    assert made[True, "prefill"].family == "attention_wide"
    assert made[False, "prefill"].family == "attention_lanes"
    few = attention_s(card, made[True, "prefill"])
    assert 5 * few < attention_s(card, made[False, "prefill"])
    one = attention_s(card, made[True, "decode"])
    keys_and_values = 512 * 8 * 128 * 2 * 2
    assert 1 < one * card.bandwidth * 1e9 / keys_and_values < 1.1


@pytest.mark.parametrize("units", [108, 128, 132])
def test_a_unit_has_sixteen_waves(units: int) -> None:
    """Where it has a group, of which there are 128 for 4096 rows."""
    traits = DeviceTraits(False, units, 1024, 48 << 10, dot4="NVIDIA")
    (launch,) = launches(Q4_K, 1, traits, (4096, 4096))
    waves, groups = prod(launch.global_size) // 32, launch.global_size[0] // 32
    assert waves >= 16 * min(groups, units)
