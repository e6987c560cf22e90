"""Texts as tokens and back, beside an answer; tokens as a prompt, bias, answers without an end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import BadSetting
from engine.protocol import (
    DecodedText,
    DecodeTokens,
    EncodedText,
    EncodeText,
    Generate,
    Piece,
    Sampling,
)
from engine.runner.api import Model, load
from engine.runner.generate import generate
from engine.runner.sequence import Sequenced
from engine.worker.handlers import HANDLERS
from engine.worker.service import Service

GREEDY = Sampling(temperature=0)


@pytest.fixture(scope="module")
def model(tiny_path: Path) -> Iterator[Model]:
    with load(tiny_path, device="host", ctx=64) as model:
        yield model


@pytest.fixture
def service(model: Model) -> Service:
    made = Service(lambda reply: None, set())
    made.take(model.loaded)
    return made


def ids(model: Model, **changes: object) -> list[int]:
    request = Generate(1, **{"sampling": GREEDY, "max_tokens": 8, **changes})
    events = generate(model.loaded, Sequenced(model.loaded.stepper), request, lambda: False)
    return [info.token for event in events if isinstance(event, Piece) for info in event.tokens]


def test_texts_and_tokens(service: Service, model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = model.loaded.tokenizer
    found = HANDLERS[EncodeText](service, EncodeText(3, "abcd the"))
    assert isinstance(found, EncodedText)
    assert found.tokens == tokenizer.encode("abcd the", add_special=False)
    assert b"".join(found.pieces).strip() == b"abcd the"
    monkeypatch.setattr(tokenizer, "add_bos", True)
    with_bos = HANDLERS[EncodeText](service, EncodeText(3, "abcd the", special=True))
    assert isinstance(with_bos, EncodedText)
    assert with_bos.tokens == [tokenizer.bos, *found.tokens]
    back = HANDLERS[DecodeTokens](service, DecodeTokens(4, found.tokens))
    assert back == DecodedText(4, "abcd the")
    marked = f"a{tokenizer.text(tokenizer.eos)}b"
    for marks, there in ((True, True), (False, False)):
        read = HANDLERS[EncodeText](service, EncodeText(3, marked, marks=marks))
        assert isinstance(read, EncodedText)
        assert (tokenizer.eos in read.tokens) is there
    for wrong in (-1, tokenizer.size):
        with pytest.raises(BadSetting, match=f"{wrong} is not valid"):
            HANDLERS[DecodeTokens](service, DecodeTokens(4, [wrong]))


def test_a_prompt_of_tokens(model: Model) -> None:
    tokens = model.loaded.tokenizer.encode("abcd")
    assert ids(model, prompt_tokens=tokens) == ids(model, prompt="abcd")
    assert ids(model, prompt_tokens=tokens, prompt="other") == ids(model, prompt="abcd")
    size = model.loaded.tokenizer.size
    with pytest.raises(BadSetting, match=f"prompt_tokens: {size} is not valid"):
        ids(model, prompt_tokens=[1, size])
    with pytest.raises(BadSetting, match="at least one token"):
        ids(model, prompt_tokens=[])


def test_bias_and_answers_without_an_end(model: Model) -> None:
    plain = ids(model, prompt="abcd")
    assert ids(model, prompt="abcd", bias={plain[0]: -100.0})[0] != plain[0]
    assert ids(model, prompt="abcd", bias={7: 1000.0}) == [7] * 8
    eos = model.loaded.tokenizer.eos
    assert ids(model, prompt="abcd", bias={eos: 1000.0}) == []
    assert ids(model, prompt="abcd", bias={eos: 1000.0}, endless=True) == [eos] * 8
    for bias, part in (
        ({-1: 1.0}, "-1"),
        ({model.loaded.built.n_vocab: 1.0}, "ids from"),
        ({3: float("nan")}, "finite"),
        ({3: float("inf")}, "finite"),
    ):
        with pytest.raises(BadSetting, match=part):
            ids(model, prompt="abcd", bias=bias)
