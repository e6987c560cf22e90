"""Expressions that a person wrote, against those of Python's own library."""

import re

import pytest

from engine.errors import BadSetting
from engine.patterns import Pattern, placing

NAMES = ("blk.0.attn_q.weight", "blk.11.ffn_up_exps.weight", "output.weight", "l_out-3", "é")
TEXTS = (r"blk\.\d+\.", "attn|ffn", r"^out", r"l_out-\d", ".*", "", r"(?:blk\.)(0|1)\b", r"\w")


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", NAMES)
def test_it_matches_what_the_library_does(text: str, name: str) -> None:
    pattern = Pattern("--tensors", text)
    assert pattern.matches(name) == bool(re.fullmatch(text, name))
    assert pattern.is_in(name) == bool(re.search(text, name))


@pytest.mark.parametrize("text", ["(", "[=a", "a{99999999999999999999}", "(?P<a>", "*"])
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadSetting, match="--tensors.*regular expression"):
        Pattern("--tensors", text).matches("a")


@pytest.mark.parametrize("text", ["(.|..)+(?=!)", "(.|..|...)+[!?]"])
def test_what_searches_for_ever_is_refused(text: str) -> None:
    with pytest.raises(BadSetting, match=r"--place.*searched for more than 0\.2 s"):
        placing(text).is_in("blk.11.ffn_gate_up_exps.weight.scales")


def test_what_takes_long_for_name_after_name_is_refused() -> None:
    """Less than the limit for each, and some minutes for all tensors of a model."""
    pattern = Pattern("--tensors", "(.|..)+(?=!)")
    names = (f"blk.{n:02}.ffn_gate.weight" for n in range(10_000))
    with pytest.raises(BadSetting, match=r"--tensors.*searched for more than 0\.2 s"):
        any(map(pattern.matches, names))
