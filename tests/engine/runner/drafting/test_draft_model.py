"""A second model's drafts: answers are those without, whatever it is and however wrong."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as replaced

from engine.errors import BadSetting, DeviceError
from engine.memory.pools import system_pool
from engine.protocol import Generate, Piece, Sampling, Speculation
from engine.runner.api import Model, load
from engine.runner.drafting.economy import TRY_EVERY, Economy
from engine.runner.drafting.model import DraftCosts, DraftModel
from engine.runner.loading import load_model
from engine.settings import EngineOptions
from tests.engine.runner.answering.many import Fixed, Many, asked, ids, tiny
from tests.engine.runner.drafting.test_economy import AVX2, measured
from tests.goldens.tiny import write_tiny

CTX, N, K = 96, 2, 4
SIZES = {"ctx": CTX, "parallel": N, "cells": 0}
IDS = ids(31, 900)
WARM = Sampling(temperature=0.8, seed=5)
SETTINGS: dict[str, dict[str, object]] = {
    "greedy": {},
    "warm": {"sampling": WARM},
    "penalties": {"sampling": replaced(WARM, repeat_penalty=1.3, penalty_last_n=20)},
    "shifts": {"n": 2 * CTX},
}
QUICK = ("gemma3", "qwen35")
LONG = [
    pytest.param(name, marks=pytest.mark.full)
    for name in ("llama", "deepseek_v3", "mamba2", "qwen3moe")
]


class Guessing(Fixed):
    """Has a model draft so many tokens always."""

    def guesses(self, *_: object) -> tuple[int, float]:
        return self.n, 1.0


@pytest.fixture(scope="module", params=[*QUICK, *LONG])
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Model, Model, Model]]:
    """A model with windows, states, latent rows or experts; the same again; another one."""
    path = tiny(tmp_path_factory.mktemp("target"), request.param)
    other = tiny(tmp_path_factory.mktemp("other"), "mistral3")
    given = {"device": "host", "kv": "f32"}
    paths = path, path, other
    with ExitStack() as stack:
        models = [stack.enter_context(load(one, **given, **SIZES)) for one in paths]
        yield models[0], models[1], models[2]


def drafts_of(model: Model, by: Model, **more: object) -> DraftModel:
    known = min(model.loaded.built.n_vocab, by.loaded.built.n_vocab)
    return DraftModel(by.loaded.stepper, known, **more)


def answered(model: Model, requests: list[Generate], draft: DraftModel | None) -> Many:
    model.loaded.draft = draft
    many = Many(model, economy=Guessing(K) if draft else Fixed(0))
    for request in requests:
        kind = Speculation("draft" if draft else "none")
        many.ask(replaced(request, speculation=kind))
    many.finish()
    model.loaded.draft = None
    return many


@pytest.mark.each_value
@pytest.mark.parametrize(
    "setting",
    [
        *("greedy", "warm"),
        *(pytest.param(name, marks=pytest.mark.full) for name in ("penalties", "shifts")),
    ],
)
def test_the_same_answers(pair: tuple[Model, Model, Model], setting: str) -> None:
    model, same, wrong = pair
    given = {"n": 16} | SETTINGS[setting]
    requests = [asked(i, IDS[50 * i :][: 10 + 7 * i], **given) for i in (1, 2)]
    expected = answered(model, requests, None)
    for by, accepts in ((same, True), (wrong, False)):
        found = answered(model, requests, drafts_of(model, by))
        for request in requests:
            number = request.id
            assert found.tokens(number) == expected.tokens(number)
            stats = found.end(number).stats
            assert stats.n_drafted > 0
            if setting == "greedy" and accepts:
                assert stats.n_accepted >= 0.9 * stats.n_drafted
                infos = [i for p in found.told[number] if isinstance(p, Piece) for i in p.tokens]
                assert {info.source for info in infos} >= {"draft"}


def test_what_is_drafted(pair: tuple[Model, Model, Model]) -> None:
    """The greedy continuation, at most so many, cut where it is unsure or too short."""
    _, same, _ = pair
    stepper, text = same.loaded.stepper, IDS[:40]
    n_vocab = same.loaded.built.n_vocab
    stepper.forget(0)
    expected = list(text)
    for _ in range(6):
        (row,) = stepper.step(expected, 0, [len(expected) - 1])
        stepper.forget(0)
        expected.append(int(row.argmax()))
    draft = DraftModel(stepper, n_vocab)
    assert draft.draft(0, text, 6) == expected[40:]
    assert draft.draft(0, expected[:42], 3) == expected[42:45]
    assert draft.draft(0, [*expected[:41], 7], 2) != []
    assert draft.draft(0, text, 2) == expected[40:42]
    assert DraftModel(stepper, n_vocab, p_min=1.0).draft(0, text, 6) == []
    assert DraftModel(stepper, n_vocab, p_min=1e-6, least=7).draft(0, text, 6) == []
    assert max(DraftModel(stepper, 20).draft(0, text, 6)) < 20
    stepper.forget(0)


def test_a_text_longer_than_its_context(pair: tuple[Model, Model, Model]) -> None:
    """The end of the text is enough, and another text is read from its start again."""
    _, same, _ = pair
    draft = DraftModel(same.loaded.stepper, same.loaded.built.n_vocab)
    for n in range(CTX - 10, 3 * CTX, 25):
        assert draft.draft(0, IDS[:n], 4) != []
    fresh = DraftModel(same.loaded.stepper, same.loaded.built.n_vocab)
    found = draft.draft(0, IDS[500:530], 4)
    assert found == fresh.draft(1, IDS[500:530], 4)


def test_one_that_fails_drafts_nothing(
    pair: tuple[Model, Model, Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, same, _ = pair
    draft = drafts_of(model, same)

    def fail(*_: object, **__: object) -> None:
        raise DeviceError("host", "it is gone")

    monkeypatch.setattr(draft.stepper, "start_together", fail)
    request = asked(1, IDS[:20], 10)
    assert answered(model, [request], draft).tokens(1) == answered(model, [request], None).tokens(1)


def test_it_is_opened_with_the_model_and_closed_with_it(tmp_path: Path) -> None:
    target, small = (write_tiny(tmp_path / f"{name}.gguf", "llama") for name in "ab")
    before = dict(system_pool().taken)
    alone = EngineOptions(device="host", ctx=64)
    with closing(load_model(target, alone)):
        without = system_pool().used
    with closing(load_model(target, replace(alone, model_draft=str(small)))) as model:
        assert model.draft is not None
        assert 0.1 < model.draft.costs.ratio < 10  # it is as large
        assert system_pool().used > without
    assert system_pool().taken == before
    other = write_tiny(tmp_path / "c.gguf", "gemma3")
    with pytest.raises(BadSetting, match="model of the same vocabulary: .*token"):
        load_model(target, replace(alone, model_draft=str(other)))
    assert system_pool().taken == before


def test_how_many_are_worth_drafting() -> None:
    """More where they are right and cheap; none where drafting takes as long as it saves."""

    def n_of(chance: float, each: float) -> int:
        economy = measured(AVX2)
        economy.chances.START = {"draft": chance}
        costs = DraftCosts(each, each)
        return economy.guesses(1, 1, 1, costs.of)[0]

    assert [n_of(a, 0.02) for a in (0.2, 0.8, 0.95)] == [0, 3, 7]
    assert [n_of(0.95, each) for each in (0.1, 0.3, 1.0)] == [7, 3, 0]


def test_now_and_then_it_is_tried_again() -> None:
    economy = measured(AVX2)
    economy.chances.START = {"draft": 0.1}
    found = [economy.guesses(1, 1, 1, DraftCosts(0.5, 0.5).of)[0] for _ in range(2 * TRY_EVERY)]
    assert sum(n > 0 for n in found) == 2
    assert Economy().guesses(1, 1, 1, DraftCosts().of) == (0, 0.0)


def test_costs_are_expected_by_the_models_steps_until_they_are_measured() -> None:
    costs = DraftCosts(ratio=0.5)
    for plain in (1.0, 4.0):
        costs.expect(plain)
        assert [costs.of(n) for n in (0, 1, 3)] == [0, 0.5 * plain, 1.5 * plain]
    costs.took(3.0, 2.0, 3)
    assert costs.of(3) == 5.0
    costs.expect(1.0)
    costs.took(6.0, 4.0, 3)
    assert costs.of(3) == 5.0  # the quickest of the first


def test_it_is_not_tried_where_even_right_drafts_would_not_pay() -> None:
    """A model as slow as the one that it drafts for: not even its prompt is read."""
    economy = measured(AVX2)
    found = [economy.guesses(1, 1, 1, DraftCosts(1.0, 1.0).of)[0] for _ in range(3 * TRY_EVERY)]
    assert not any(found)
