"""Answers with drafts are those without, whatever is drafted: text, log-probabilities and end."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.protocol import Finished, Generate, JsonSchema, Piece, Sampling, Speculation
from engine.runner.api import Model, load
from tests.engine.runner.answering.many import Fixed, Many, asked, ids, tiny
from tests.engine.runner.drafting.scripted import KINDS, K, answered
from tests.engine.runner.pictures.seeing import bring, noise, says
from tests.goldens.vision.families import write_single

CTX, N = 96, 3
SIZES = {"ctx": CTX, "parallel": N, "cells": 0}
IDS = ids(29, 900)
WARM = Sampling(temperature=0.8, seed=5)
PENALISED = Sampling(
    temperature=0.7, seed=3, repeat_penalty=1.3, frequency_penalty=0.2, penalty_last_n=20
)
STOP = "a piece of what it says"
SETTINGS: dict[str, dict[str, object]] = {
    "greedy": {},
    "warm": {"sampling": WARM},
    "penalties": {"sampling": PENALISED},
    "stops": {"sampling": WARM, "stop": [STOP]},
    "logprobs": {"sampling": WARM, "logprobs": 3},
    "ends": {"sampling": WARM, "endless": False, "stop_loops": True},
    "shifts": {"n": 2 * CTX},
    "full": {"n": 2 * CTX, "when_full": "stop"},
}
QUICK = ("gemma3", "qwen35", "deepseek_v3")
LONG = [pytest.param(name, marks=pytest.mark.full) for name in ("mamba2", "qwen3moe", "llama4")]


@pytest.fixture(scope="module", params=[*QUICK, *LONG])
def model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Model]:
    """Windows, states beside attention and alone, latent rows, experts, chunks."""
    path = tiny(tmp_path_factory.mktemp("drafts"), request.param)
    with load(path, device="host", kv="f32", **SIZES) as model:
        yield model


@pytest.fixture(scope="module")
def plain(tiny_path: Path) -> Iterator[Model]:
    with load(tiny_path, device="host", kv="f32", **SIZES) as model:
        yield model


def requests(count: int, n: int = 40, **more: object) -> list[Generate]:
    return [asked(i, IDS[50 * i :][: 10 + 7 * i], n, **more) for i in range(1, count + 1)]


@pytest.mark.full
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("kind", ["third", "right"])
def test_one_answer(model: Model, setting: str, kind: str) -> None:
    """Whatever is asked for with it, on every kind of cache."""
    one_answer(model, setting, kind)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("setting", SETTINGS)
def test_one_answer_of_a_plain_model(plain: Model, setting: str) -> None:
    one_answer(plain, setting, "third")


def one_answer(model: Model, setting: str, kind: str) -> None:
    given = dict(SETTINGS[setting])
    if given.get("stop") == [STOP]:
        (said,) = answered(model, requests(1, sampling=WARM)).values()
        given["stop"] = [said[0][-12:-9]]
    check(model, requests(1, **given), kind)


@pytest.mark.sampled(3)
def test_several_in_a_step(model: Model) -> None:
    several = [*requests(2, sampling=WARM), asked(3, IDS[:30], 25, sampling=PENALISED, logprobs=2)]
    check(model, several, "third")


def check(model: Model, several: list[Generate], kind: str) -> None:
    expected, found = answered(model, several), answered(model, several, KINDS[kind])
    for number, (text, infos, end) in expected.items():
        other, drafted, ended = found[number]
        assert [one.token for one in drafted] == [one.token for one in infos]
        assert other == text
        for one, two in zip(drafted, infos, strict=True):
            assert one.logprob == pytest.approx(two.logprob, abs=1e-4)
            assert [top.token for top in one.top] == [top.token for top in two.top]
        assert (ended.reason, ended.matched) == (end.reason, end.matched)
        stats, alone = ended.stats, end.stats
        assert (stats.n_generated, stats.n_shifts) == (alone.n_generated, alone.n_shifts)
        assert stats.n_drafted > 0 or alone.n_generated < 4
        share = {"wrong": 0, "right": stats.n_drafted}.get(kind)
        if share is not None and end.reason == "length" and not alone.n_shifts:
            assert stats.n_accepted == share


@pytest.mark.sampled(3)
def test_drafts_none_drafts(model: Model) -> None:
    """Steps with drafts, some without, and again with: what is cached after them is what single
    steps leave, and the next prompt continues from there.
    """
    request = requests(1)[0]
    (expected,) = answered(model, [request]).values()
    tokens = [info.token for info in expected[1]]
    (found,) = answered(model, [request], lambda i: i % 7 in (2, 3)).values()
    assert [info.token for info in found[1]] == tokens
    longer = [*(request.prompt_tokens or ()), *tokens[:30], IDS[4]]
    again = asked(1, longer, 12)
    (after,) = answered(model, [again]).values()
    many = Many(model, economy=Fixed(K))
    many.ask(request)
    many.finish()
    many.ask(asked(2, longer, 12))
    many.finish()
    assert many.tokens(2) == [info.token for info in after[1]]


def test_a_form_forces_tokens(plain: Model) -> None:
    """What has no other continuation is drafted by the form itself, and right."""
    kinds = '{"name_of_the_thing": {"type": "boolean"}, "number": {"type": "boolean"}}'
    schema = f'{{"type": "object", "properties": {kinds}, "required": ["name_of_the_thing"]}}'
    request = Generate(1, prompt="abcd", sampling=WARM, max_tokens=80, form=JsonSchema(schema))
    (expected,) = answered(plain, [request]).values()
    many = Many(plain, economy=Fixed(K))
    many.ask(replace(request, speculation=Speculation("auto")))
    many.finish()
    end = many.end(1)
    assert isinstance(end, Finished)
    assert many.tokens(1) == [info.token for info in expected[1]]
    assert end.reason == expected[2].reason == "stop"
    assert end.stats.n_accepted >= 8


def test_pictures(tmp_path: Path) -> None:
    """Layers that look at pictures: drafts see them too."""
    path = write_single(tmp_path, "mllama")
    with load(path, device="host", kv="f32", ctx=160, parallel=2, cells=0) as model:
        message = says("what is", bring(model, noise(3)), "here")
        both = [
            Generate(i, messages=[message], sampling=WARM, max_tokens=14, endless=True)
            for i in (1, 2)
        ]
        check(model, both, "third")


def test_what_repeats_is_drafted_by_itself(plain: Model) -> None:
    """Of a few tokens only, the same three follow each other again soon."""
    few = dict.fromkeys(IDS[:4], 50.0)
    request = asked(1, IDS[:12] * 2, 50, bias=few, sampling=WARM)
    (expected,) = answered(plain, [request]).values()
    many = Many(plain, economy=Fixed(K))
    many.ask(replace(request, speculation=Speculation("auto")))
    many.finish()
    end = many.end(1)
    assert isinstance(end, Finished)
    assert many.tokens(1) == [info.token for info in expected[1]]
    assert end.stats.n_drafted > 10
    infos = [i for one in many.told[1] if isinstance(one, Piece) for i in one.tokens]
    accepted = [info for info in infos if info.source and not info.drafted]
    assert {info.source for info in infos} == {"", "ngram"}
    assert len(accepted) == end.stats.n_accepted
    assert all(info.drafted != info.text for info in infos if info.drafted)
