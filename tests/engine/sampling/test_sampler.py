"""Each sampler against its definition in plain NumPy, over random logits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from engine.errors import BadSetting
from engine.protocol import Sampling
from engine.sampling.cuts import Candidates, best_of, is_few, log_softmax, min_p, top_k, top_p
from engine.sampling.sampler import BadLogits, Sampler, candidates, penalize

LOGITS = arrays(
    np.float32,
    st.integers(1, 60),
    elements=st.floats(-30, 30, width=32),
    unique=True,
)
FAST = settings(max_examples=100, deadline=None)


def probabilities(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits.astype(np.float64) - logits.max())
    return weights / weights.sum()


@pytest.mark.parametrize("n", [2048, 3 * 1024 + 17, 49152])
@pytest.mark.parametrize("k", [1, 10, 256, 700])
def test_top_k_of_a_vocabulary(n: int, k: int) -> None:
    rng = np.random.default_rng(n + k)
    spread = rng.normal(0, 3, n).astype(np.float32)
    crowded = np.concatenate([np.full(600, 5), rng.integers(-9, 5, n - 600)]).astype(np.float32)
    rising = np.linspace(-40, 0, n, dtype=np.float32)  # the largest in the same rows
    for logits in (spread, crowded, rng.permutation(crowded), rising, np.zeros(n, np.float32)):
        want = np.argsort(-logits, kind="stable")[:k]
        assert top_k(logits, k).ids.tolist() == want.tolist()


@FAST
@given(LOGITS, st.integers(-1, 70))
def test_top_k_keeps_the_k_largest_in_order(logits: np.ndarray, k: int) -> None:
    order = sorted(range(logits.size), key=lambda i: -float(logits[i]))
    assert top_k(logits.astype(np.float64), k).ids.tolist() == order[: k if k > 0 else None]


@FAST
@given(LOGITS, st.floats(0, 1))
def test_top_p_keeps_the_shortest_front_that_reaches_p(logits: np.ndarray, p: float) -> None:
    everything = top_k(logits.astype(np.float64), 0)
    kept = top_p(everything, p).ids.size
    chances = probabilities(logits)[everything.ids]
    assert chances[:kept].sum() >= p - 1e-9
    assert kept == 1 or chances[: kept - 1].sum() < p + 1e-9 or p == 1


@pytest.mark.parametrize(("p", "kept"), [(0.25, 1), (0.5, 2), (0.75, 3), (0.76, 4)])
def test_top_p_stops_where_p_is_reached(p: float, kept: int) -> None:
    assert top_p(top_k(np.zeros(4), 0), p).ids.size == kept


@FAST
@given(LOGITS, st.floats(0, 1))
def test_min_p_keeps_what_is_at_least_p_of_the_best(logits: np.ndarray, p: float) -> None:
    everything = top_k(logits.astype(np.float64), 0)
    chances = probabilities(logits)[everything.ids]
    kept = min_p(everything, p).ids.size
    sure = int((chances > chances[0] * p * (1 + 1e-9)).sum())
    possible = int((chances >= chances[0] * p * (1 - 1e-9)).sum())
    assert max(1, sure) <= kept <= max(1, possible)


@FAST
@given(
    LOGITS,
    st.lists(st.integers(0, 59), max_size=80),
    st.floats(0.5, 2),
    st.floats(-2, 2),
    st.floats(-2, 2),
    st.integers(-1, 70),
)
def test_penalties(
    logits: np.ndarray,
    history: list[int],
    repeat: float,
    frequency: float,
    presence: float,
    last_n: int,
) -> None:
    history = [t for t in history if t < logits.size]
    params = Sampling(
        repeat_penalty=repeat,
        frequency_penalty=frequency,
        presence_penalty=presence,
        penalty_last_n=last_n,
    )
    recent = history if last_n < 0 else history[len(history) - min(last_n, len(history)) :]
    wanted = logits.astype(np.float64)
    for token in set(recent):
        x = wanted[token]
        x = x * repeat if x <= 0 else x / repeat
        wanted[token] = x - recent.count(token) * frequency - presence
    np.testing.assert_allclose(penalize(logits.astype(np.float64), history, params), wanted)


def test_draws_follow_the_probabilities() -> None:
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05], np.float32))
    sampler = Sampler(Sampling(temperature=1, top_k=0, top_p=1, min_p=0, seed=1))
    n = 20000
    counts = np.bincount([sampler.sample(logits, []) for _ in range(n)], minlength=4)
    np.testing.assert_allclose(counts / n, [0.5, 0.3, 0.15, 0.05], atol=0.015)


def test_temperature_comes_after_the_cuts() -> None:
    """At a very high temperature all that top-p and min-p kept are equally likely, no others."""
    logits = np.log(np.array([0.6, 0.3, 0.06, 0.04], np.float32))
    sampler = Sampler(Sampling(temperature=100, top_k=0, top_p=0.85, min_p=0, seed=2))
    counts = np.bincount([sampler.sample(logits, []) for _ in range(4000)], minlength=4)
    assert counts[2] == counts[3] == 0
    assert abs(counts[0] - counts[1]) < 300


@FAST
@given(LOGITS, st.integers(0, 2**64 - 1))
def test_equal_seeds_give_equal_draws(logits: np.ndarray, seed: int) -> None:
    one, two = (Sampler(Sampling(seed=seed)) for _ in range(2))
    assert [one.sample(logits, []) for _ in range(5)] == [two.sample(logits, []) for _ in range(5)]


@FAST
@given(LOGITS)
def test_greedy_takes_the_first_largest(logits: np.ndarray) -> None:
    assert Sampler(Sampling(temperature=0)).sample(logits, []) == int(np.argmax(logits))


@FAST
@given(LOGITS)
def test_log_softmax(logits: np.ndarray) -> None:
    every = np.arange(logits.size)
    np.testing.assert_allclose(np.exp(log_softmax(logits, every)), probabilities(logits), rtol=2e-6)


@pytest.mark.parametrize("bad", [[np.nan, 1.0], [-np.inf, -np.inf]])
def test_logits_that_are_no_numbers_say_so(bad: list[float]) -> None:
    with pytest.raises(BadLogits, match="doctor"):
        Sampler(Sampling()).sample(np.array(bad, np.float32), [])


@pytest.mark.parametrize(
    "changes",
    [
        {"temperature": float("nan")},
        {"temperature": -1.0},
        {"top_p": 1.5},
        {"min_p": -0.1},
        {"repeat_penalty": 0.0},
        {"seed": -1},
        {"top_k": -2},
    ],
)
def test_settings_out_of_range_are_named(changes: dict[str, float]) -> None:
    with pytest.raises(BadSetting, match=next(iter(changes))):
        Sampler(Sampling(**changes))  # type: ignore[arg-type]


@FAST
@given(LOGITS, st.integers(0, 8), st.floats(0.05, 1), st.floats(0, 0.5), st.integers(0, 99))
def test_the_steps_that_are_told_are_those_that_are_drawn_from(
    logits: np.ndarray, k: int, p: float, least: float, seed: int
) -> None:
    history = [0, 0, logits.size - 1]
    params = Sampling(0.7, k, p, least, repeat_penalty=1.3, presence_penalty=0.5, seed=seed)
    steps = dict(candidates(logits, history, params))
    assert list(steps) == ["penalties", "top_k", "top_p", "min_p", "temperature"]
    before = penalize(logits, history, params).astype(np.float64)
    np.testing.assert_array_equal(steps["penalties"].logits, before)
    counts = [len(step.ids) for step in steps.values()]
    assert counts == sorted(counts, reverse=True)
    last = steps["temperature"]
    np.testing.assert_allclose(last.logits, (before[last.ids] - before.max()) / 0.7)
    rest = np.setdiff1d(np.arange(logits.size), last.ids)
    assert not rest.size or before[rest].max() <= before[last.ids].min()
    if not is_few(k, logits.size):  # what was not sorted lies in the order of its ids
        order = np.argsort(last.ids)
        last = Candidates(last.ids[order], last.logits[order])
    running = np.cumsum(probabilities(last.logits))
    drawn = last.ids[np.searchsorted(running, np.random.Generator(np.random.PCG64(seed)).random())]
    assert Sampler(params).sample(logits, history) == drawn


def test_a_greedy_choice_has_two_steps() -> None:
    steps = dict(candidates(np.float32([1, 3, 2]), [1], Sampling(0, repeat_penalty=4)))
    assert [(name, len(step.ids)) for name, step in steps.items()] == [
        ("penalties", 3),
        ("temperature", 1),
    ]
    assert steps["temperature"].ids.tolist() == [2]
    with pytest.raises(BadLogits):
        list(candidates(np.float32([1, np.nan]), [], Sampling(0)))


@pytest.mark.parametrize(
    "params",
    [
        Sampling(temperature=0),
        Sampling(temperature=0.8, top_k=40, top_p=0.9, min_p=0.05, seed=3),
        Sampling(temperature=1.7, top_k=64, top_p=1.0, min_p=0.0, seed=4),
        Sampling(temperature=1.0, top_k=1, seed=5),
    ],
    ids=["greedy", "usual", "wide", "one"],
)
def test_the_best_alone_give_the_same_tokens(params: Sampling) -> None:
    rng = np.random.default_rng(6)
    whole, few = Sampler(params), Sampler(params)
    assert few.draws_from(64, 3000)
    for i in range(60):
        logits = rng.normal(0, 3, 3000).astype(np.float32)
        logits[rng.integers(0, 3000, 900)] = np.float32(-np.inf if i % 2 else 5)  # ties
        first = np.argsort(-logits, kind="stable")[:64]
        row = np.concatenate([logits[first], first.astype(np.float32)])
        assert few.choose(best_of(row)) == whole.sample(logits, [])


def test_what_needs_more_than_the_best() -> None:
    for more in (
        {"top_k": 65},
        {"top_k": 0},
        {"temperature": 0, "repeat_penalty": 1.1},
        {"temperature": 0, "presence_penalty": 0.1},
    ):
        assert not Sampler(Sampling(**more)).draws_from(64, 3000)
    assert not Sampler(Sampling(temperature=0), {3: 1.0}, 3000).draws_from(64, 3000)
    assert not Sampler(Sampling(top_k=40)).draws_from(64, 100)  # drawn in the order of ids there


@pytest.mark.parametrize("first", [np.nan, np.inf, -np.inf])
def test_the_best_may_be_no_numbers(first: float) -> None:
    row = np.float32([first, -np.inf, 3, 4])
    with pytest.raises(BadLogits):
        Sampler(Sampling(temperature=0)).choose(best_of(row))


@pytest.mark.parametrize("params", [Sampling(temperature=0), Sampling(top_k=20, seed=3)])
def test_what_is_never_drawn(params: Sampling) -> None:
    """From all logits and from the best of them alike, as if these tokens were not there."""
    rng = np.random.default_rng(5)
    whole, few = (Sampler(params, size=3000, never=(7, 9, 2999)) for _ in range(2))
    without = Sampler(params)
    assert few.draws_from(64, 3000)
    assert few.draws_from(23, 3000)
    assert not Sampler(params, never=range(60)).draws_from(60, 3000)
    for _ in range(50):
        logits = rng.normal(0, 3, 3000).astype(np.float32)
        lowest = logits.copy()
        logits[[7, 9, 2999]] = 40, 41, 42
        lowest[[7, 9, 2999]] = -1e30
        best = top_k(logits.astype(np.float64), 64)
        token = whole.sample(logits, [])
        assert token == few.choose(best) == without.sample(lowest, [])
        assert logits[7] == 40
