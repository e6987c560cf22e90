"""A placement written down again says the same, here and to llama.cpp."""

import random
import re
import shlex
from bisect import bisect_right
from itertools import accumulate

import numpy as np
import pytest

from engine.memory.placement import Placement, parse_pins
from engine.memory.rule import LlamaCpp, llama_cpp, rule_of

DEVICES = ["intel:0", "pocl:0", "nvidia:1", "host"]
PATTERNS = [r"ffn_.*_exps", r"blk\.\d{1,2}\.attn_q", r"^(?:v\.|mm\.)", "a,b", "norm", r"x{2,}y"]
NAMES = ["blk.0.ffn_up_exps.weight", "blk.12.attn_q.weight", "v.k", "a,b", "norm", "xxy"]


def random_placement(source: random.Random) -> Placement:
    n = source.randint(1, 40)
    layers: list[str] = []
    while len(layers) < n:
        layers += [source.choice(DEVICES)] * source.randint(1, 9)
    overrides = [
        (source.choice(PATTERNS), source.choice(DEVICES)) for _ in range(source.randint(0, 5))
    ]
    return Placement((*layers[:n], source.choice(DEVICES)), tuple(overrides))


@pytest.mark.parametrize("seed", range(60))
def test_a_rule_parsed_again_places_alike(seed: int) -> None:
    placement = random_placement(random.Random(seed))
    text = rule_of(placement)
    pins = parse_pins(text)
    layers = pins.of_layers(placement.n_layer, DEVICES)
    again = Placement(tuple(layers[i] for i in range(len(placement.layers))), pins.patterns)
    assert again.layers == placement.layers
    assert [again.override(name) for name in NAMES] == [placement.override(n) for n in NAMES]
    assert rule_of(again) == text


def test_ranges_are_as_long_as_they_can_be() -> None:
    same = Placement(("a",) * 12 + ("b",) * 3 + ("a", "a"), (("x", "b"), ("x", "a")))
    assert rule_of(same) == "0-11=a,12-14=b,15=a,out=a,x=b"
    assert rule_of(Placement(("a", "a"))) == "0=a,out=a"


def called(device: str) -> str:
    return {"intel:0": "CPU", "pocl:0": "CPU", "host": "CPU", "nvidia:1": "CUDA1"}.get(
        device, "CUDA0"
    )


def as_llama_cpp_reads(flags: str, n_layer: int) -> list[str]:
    """Where llama.cpp puts layers by -ngl and -ts, and then weights by -ot (its load_tensors)."""
    words = shlex.split(flags)
    options = list(zip(words[::2], words[1::2], strict=True))
    gpus = [f"CUDA{i}" for i in range(2)]
    offloaded = int(dict(options)["-ngl"])
    shares = [float(s) for s in dict(options).get("-ts", "1").split(",")]
    ends = [np.float32(e) / np.float32(sum(shares)) for e in accumulate(shares)]
    first = n_layer + 1 - offloaded
    where = ["CPU"] * first
    for i in range(offloaded):
        where.append(gpus[bisect_right(ends, np.float32(i) / np.float32(offloaded))])
    for i in range(n_layer + 1):
        name = "output.weight" if i == n_layer else f"blk.{i}.ffn_up.weight"
        for flag, value in options:
            pattern, _, device = value.rpartition("=")
            if flag == "-ot" and re.search(pattern, name):
                where[i] = device
                break
    return where


@pytest.mark.parametrize("seed", range(60))
def test_llama_cpp_places_weights_alike(seed: int) -> None:
    source = random.Random(seed)
    devices = ["intel:0", "nvidia:0", "nvidia:1"]
    if seed % 2:
        counts = [source.randint(0, 9), source.randint(1, 9), source.randint(1, 9)]
        layers = [d for d, n in zip(devices, counts, strict=True) for _ in range(n)]
    else:
        layers = [source.choice(devices) for _ in range(source.randint(2, 30))]
    placement = Placement(tuple(layers))
    said = llama_cpp(placement, called)
    assert as_llama_cpp_reads(said.flags, len(layers) - 1) == [called(d) for d in layers]
    assert ("-ts" in said.flags) >= bool(seed % 2)
    assert bool(said.notes) == ("-ot" in said.flags)


def test_what_llama_cpp_cannot_say_is_told() -> None:
    both = Placement(("intel:0", "pocl:0", "pocl:0"))
    assert llama_cpp(both, called) == LlamaCpp(
        "-ngl 0", ("llama.cpp has one device CPU for intel:0 and pocl:0",)
    )
    pinned = Placement(("nvidia:0",) * 3, (("^l_out-1$", "host"), (r"ffn_up\Z", "host")))
    said = llama_cpp(pinned, called, nodes=["^l_out-1$"])
    assert said.flags == r"-ngl 3 -ot 'ffn_up\Z=CPU'"
    assert [re.search("results|another way", note) is not None for note in said.notes] == [True] * 2
