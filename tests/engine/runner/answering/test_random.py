"""Whatever comes, goes and is cancelled when: nothing is lost, mixed up or told twice."""

from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.protocol import Finished
from engine.runner.answering.batcher import Broken
from engine.runner.api import Model, load
from tests.engine.runner.answering.many import Many, alone, asked, ids, tiny

pytestmark = pytest.mark.full_cases(r"\[gemma3")

IDS = ids(23, 2000)
SEQUENCES, CTX, CELLS = 4, 128, 256

ASKED = st.tuples(
    st.just("ask"),
    st.integers(0, 3),  # which text
    st.sampled_from([0, 30, 60]),  # how much of it all begin with
    st.sampled_from([1, 7, 30]),  # tokens behind
    st.sampled_from([0, 1, 6, 36]),  # tokens to write
)
ACTS = st.lists(
    st.one_of(ASKED, ASKED, st.tuples(st.just("cancel"), st.integers(0, 12)), st.integers(1, 20)),
    min_size=3,
    max_size=14,
)


RECURRENT = [pytest.param(name, marks=pytest.mark.full) for name in ("qwen35", "mamba2")]


@pytest.fixture(scope="module", params=["llama", "gemma3", *RECURRENT])
def model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Model]:
    """Twice as many tokens may be wanted as there are cells."""
    path = tiny(tmp_path_factory.mktemp("random"), request.param)
    sizes = {"ctx": CTX, "parallel": SEQUENCES, "cells": CELLS}
    with load(path, device="host", kv="f32", **sizes) as model:
        yield model


@cache
def expected(model: Model, text: tuple[int, ...], n: int) -> list[int]:
    return alone(model, [asked(1, list(text), n)])[1]


def _check(model: Model, acts: list[tuple | int]) -> None:
    requests = [
        asked(i, IDS[:shared] + IDS[200 + 200 * text :][:more], n)
        for i, (_, text, shared, more, n) in enumerate(
            (act for act in acts if isinstance(act, tuple) and act[0] == "ask"), 1
        )
    ]
    wanted = {
        one.id: expected(model, tuple(one.prompt_tokens or ()), one.max_tokens or 0)
        for one in requests
    }
    many, coming = Many(model), iter(requests)
    for act in acts:
        match act:
            case ("ask", *_):
                many.ask(next(coming))
            case ("cancel", number):
                many.cancelled.add(number)
            case int(turns):
                for _ in range(turns):
                    many.turn()
    many.finish()
    for number, tokens in wanted.items():
        end, said = many.end(number), many.tokens(number)
        assert said == tokens[: len(said)]
        if isinstance(end, Finished) and end.reason == "length":
            assert said == tokens
        else:
            assert number in many.cancelled
            assert isinstance(end, Broken) or end.reason == "cancelled"
    assert not many.slots.held


RANDOM = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture]}


@settings(max_examples=12, **RANDOM)
@given(acts=ACTS)
def test_every_request_ends_once_with_its_own_words(model: Model, acts: list[tuple | int]) -> None:
    _check(model, acts)


@pytest.mark.full
@settings(max_examples=300, **RANDOM)
@given(acts=ACTS)
def test_every_request_ends_once_at_length(model: Model, acts: list[tuple | int]) -> None:
    _check(model, acts)
