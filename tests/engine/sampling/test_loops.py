"""An answer that repeats itself is found; what people ask for that looks alike is not."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.gguf import open_gguf
from engine.sampling.stops import LOOK_EVERY, LoopStop, loop_period
from engine.tokenizer import load_tokenizer


def found_after(tokens: list[int]) -> int | None:
    """The number of tokens after which the loop is found."""
    stop = LoopStop()
    return next((n for n, token in enumerate(tokens, 1) if stop.loops_with(token)), None)


def slow_period(tokens: list[int]) -> int | None:
    """The definition, token by token."""
    for period in range(1, 257):
        length = 32 * period if period <= 2 else max(6 * period, 96) if period <= 64 else 4 * period
        tail = tokens[-length:]
        if len(tokens) >= length and all(
            tail[i] == tail[i + period] for i in range(len(tail) - period)
        ):
            return period
    return None


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 3), max_size=40),
    st.lists(st.integers(0, 3), min_size=1, max_size=270),
    st.integers(1, 9) | st.just(40),
    st.integers(0, 5),
)
def test_it_is_the_definition(head: list[int], unit: list[int], times: int, more: int) -> None:
    tokens = head + unit * times + unit[:more]
    assert loop_period(tokens) == slow_period(tokens)


@pytest.mark.parametrize("begins", [0, 5, 37])
def test_ten_tokens_again_and_again_end_within_128(begins: int) -> None:
    rng = np.random.default_rng(1)
    head = rng.integers(1000, 9000, begins).tolist()
    tokens = head + list(range(10)) * 40
    n = found_after(tokens)
    assert n is not None
    assert n - begins <= 128


@pytest.mark.parametrize("period", [1, 2, 3, 10, 33, 64])
def test_each_period_is_found(period: int) -> None:
    n = found_after(list(range(period)) * 500)
    assert n is not None
    assert n <= max(6 * period, 96) + LOOK_EVERY


@pytest.mark.parametrize("period", [65, 160, 256])
def test_a_paragraph_again_and_again(period: int) -> None:
    """Seen: a base model wrote one of some 160 tokens until the context was full."""
    n = found_after([9, 9, *range(period)] + list(range(period)) * 20)
    assert n is not None
    assert n <= 2 + 4 * period + LOOK_EVERY
    assert found_after(list(range(period)) * 3 + [7, 5, 3] * 8) is None


def test_a_longer_period_is_no_loop() -> None:
    assert found_after(list(range(257)) * 30) is None


def texts() -> list[str]:
    """Right answers with much that repeats."""
    csv = "\n".join(f"{i},Name {i},{i * 37 % 100},2024-01-{i % 28 + 1:02},yes" for i in range(40))
    table = "\n".join(f"| {i} | item {i} | {i * i} | ok |" for i in range(60))
    digits = "The number is " + "7" * 24 + "."
    rule = "| a | b |\n|" + "-" * 24 + "|" + "-" * 24 + "|\n| 1 | 2 |"
    verse = "\n\n".join(f"Verse {v}.\n" + "la la la\n" * 4 for v in ("one", "two", "three", "four"))
    return [csv, table, digits, rule, verse, "=" * 24, "0" * 24]


@pytest.mark.model_file
def test_tables_and_digits_are_none(smollm2_path: Path, gemma3_path: Path) -> None:
    for path in (smollm2_path, gemma3_path):
        with open_gguf(path) as file:
            tokenizer = load_tokenizer(file.metadata)
        for text in texts():
            assert found_after(tokenizer.encode(text, add_special=False)) is None, text
