"""How many drafts are worth computing: more where they are right, none where steps get dear."""

import pytest

from engine.runner.drafting.economy import (
    FORGET,
    LOSS,
    PLAIN_EVERY,
    SIZES,
    SPAN,
    SURE,
    Account,
    Chances,
    Economy,
    StepCosts,
)


def measured(seconds: dict[int, float], n_writing: int = 1) -> Economy:
    economy = Economy()
    for rows, one in seconds.items():
        for _ in range(3):
            economy.took(n_writing, rows, one)
    economy.took(n_writing, n_writing, seconds[n_writing])
    return economy


AVX2 = {1: 1.0, 2: 1.25, 3: 1.5, 4: 1.67, 8: 2.65, 16: 6.0}


def n_of(chance: float, costs: dict[int, float] = AVX2) -> int:
    ((share,), saved) = measured(costs).shares([[chance] * 15], 1, 1)
    assert (saved > 0) == (share > 0)
    return share


def test_the_likelier_the_more() -> None:
    """The design's table: at 0.44 nothing pays, at 0.8 three drafts, at 0.95 seven."""
    assert [n_of(a) for a in (0.2, 0.8, 0.95)] == [0, 3, 7]
    assert n_of(1.0) == 7
    assert n_of(1.0, AVX2 | {16: 3.0}) == 15
    assert n_of(1.0, {n: float(n) for n in AVX2}) == 0  # a row costs what a step costs
    assert 1 + n_of(0.9) in SIZES


def test_nothing_before_a_plain_step_is_known() -> None:
    assert Economy().shares([[1.0] * 9], 1, 1) == ([0], 0.0)


def test_several_share_by_their_chances() -> None:
    economy = measured({4: 1.0, 8: 1.1, 16: 4.0}, 4)
    shares, _ = economy.shares([[0.9] * 5, [], [0.2] * 5, [0.95] * 5], 4, 4)
    assert sum(shares) == 4
    assert shares[1] == 0
    assert min(shares[0], shares[3]) > shares[2]
    dear = measured({4: 1.0, 8: 1.9, 16: 4.0}, 4)
    assert dear.shares([[0.5] * 5] * 4, 4, 4)[0] == [0, 0, 0, 0]


def test_one_step_in_some_is_plain() -> None:
    economy = measured(AVX2)
    shares = []
    for _ in range(3 * PLAIN_EVERY):
        ((share,), _) = economy.shares([[1.0] * 15], 1, 1)
        economy.took(1, 1 + share, AVX2[1 + share])
        shares.append(share)
    assert shares.count(0) == 2
    assert shares.index(0) == PLAIN_EVERY


def test_chances_follow_what_was_drawn() -> None:
    chances = Chances()
    for _ in range(40):
        chances.learn("ngram 8", 0, False)
        chances.learn("ngram 8", 1, True)
    assert chances.at("ngram 8", 0) < 0.2 < 0.9 < chances.at("ngram 8", 1)
    assert chances.at("ngram 16", 0) == Chances.START["ngram 16"]


def test_an_account_rests_before_more_is_lost() -> None:
    """Whatever was gained before; then for twice as long."""
    account, lost = Account(), 0.0
    account.add(-100.0, 1.0)
    while not account.resting:
        account.add(0.5, 1.0)
        lost += 0.5
    assert lost == pytest.approx(2 * LOSS * SPAN, abs=0.5)
    assert account.resting == SPAN
    account.wrote(SPAN)
    assert not account.resting
    while not account.resting:
        account.add(0.5, 1.0)
    assert account.resting == 2 * SPAN


def test_a_plan_is_made_once_it_has_paid() -> None:
    """And what was written bears it: a share of its time, or what drafts saved."""
    economy = Economy()
    economy.built(0.25)  # plans take 0.2 s
    economy.took(1, 1, 0.1999 / LOSS)
    assert not economy.missed(0.3)
    economy.took(1, 1, 0.01)
    assert economy.missed(-1.0)
    economy.built(0.2)
    assert not economy.missed(-1.0)
    economy.took(1, 2, 0.01, 0.2)
    assert not economy.missed(0.1)
    assert economy.missed(0.11)


def test_a_plan_is_made_where_much_was_missed() -> None:
    economy = Economy()
    economy.built(0.25)
    assert [economy.missed(0.21) for _ in range(SURE)] == [False] * (SURE - 1) + [True]


def test_what_was_measured_is_forgotten() -> None:
    """A size that was dear once is guessed by what is known lately; the first step of it counts."""
    costs = StepCosts()
    for _ in range(4):
        costs.took(4, 9.0)
        costs.took(1, 1.0)
    assert costs.of(4) == 9.0
    for _ in range(FORGET):
        assert costs.knows(1)
        costs.took(1, 1.0)
    assert not costs.knows(4)
    assert costs.of(4) == pytest.approx(1.75)
    costs.took(4, 1.5)
    assert costs.of(4) == 1.5
