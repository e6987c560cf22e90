"""Drafts by the block that predicts further tokens: what it computes, and that no text changes."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from engine.errors import BadSetting, DeviceError
from engine.memory.pools import system_pool
from engine.protocol import Piece, Sampling, Speculation
from engine.runner.api import Model, load
from engine.runner.drafting.mtp import NOT_READ, PredictingDrafts
from engine.runner.loading import load_model
from engine.runner.stepper import Logits, StepPart
from engine.settings import EngineOptions, drafters
from tests.engine.runner.answering.many import Fixed, Many, asked, ids, tiny
from tests.engine.runner.drafting.predicting import FEW, Published, with_block
from tests.engine.runner.drafting.test_draft_model import Guessing

CTX, N = 96, 2
OPTIONS = {"device": "host", "kv": "f32", "ctx": CTX, "parallel": N, "cells": 0}
BIAS = dict.fromkeys(FEW, 50.0)
IDS = ids(31, 900)
WARM = Sampling(temperature=8.0, seed=5)
SETTINGS: dict[str, dict[str, object]] = {
    "warm": {"sampling": WARM},
    "greedy": {},
    "penalties": {"sampling": replace(WARM, repeat_penalty=1.3, penalty_last_n=20)},
    "shifts": {"sampling": WARM, "n": 2 * CTX},
}


@pytest.fixture(scope="module", params=["glm4moe", "qwen35", "deepseek_v3"])
def model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Model]:
    """Experts; states beside attention; latent rows."""
    path = with_block(tmp_path_factory.mktemp("mtp"), request.param)
    with load(path, spec_type="mtp", **OPTIONS) as model:
        yield model


def drafts_of(model: Model) -> PredictingDrafts:
    draft = model.loaded.draft
    assert isinstance(draft, PredictingDrafts)
    return draft


class Recorded:
    """Keeps the hidden states of a model's steps."""

    def __init__(self, then: PredictingDrafts) -> None:
        self.rows: list[np.ndarray] = []
        self._then = then

    def computed(self, parts: list[StepPart], hidden: Logits) -> None:
        self.rows += list(hidden.copy())
        self._then.computed(parts, hidden)


@pytest.mark.parametrize("own", [True, False])
def test_what_it_computes(tmp_path: Path, own: bool) -> None:
    """Hidden states after the output norm enter; the prompt comes in pieces, and each guess goes on
    from the state of the one before.
    """
    path = with_block(tmp_path, "glm4moe", own, like=0)
    text, n = IDS[:50], 4
    with load(path, spec_type="mtp", **OPTIONS) as model:
        stepper, drafts = model.loaded.stepper, drafts_of(model)
        recorded = Recorded(drafts)
        stepper.follower = recorded  # type: ignore[assignment]
        rows = [
            stepper.step(text[a:b], a, [b - a - 1])[0] for a, b in ((0, 30), (30, 48), (48, 49))
        ]
        hidden = np.stack(recorded.rows).astype(np.float64)
        assert hidden.shape == (49, model.loaded.built.model.params.n_embd)
        output = model.tensor("output.weight").astype(np.float64)
        for at, row in zip((29, 47, 48), rows, strict=True):
            assert output @ hidden[at] == pytest.approx(row, rel=1e-4, abs=1e-4)
        found = drafts.draft(0, text, n, 49)
        published, expected, following = Published(path), list[int](), list(text[1:])
        states = hidden
        for _ in range(n):
            logits, given = published(states, following)
            expected.append(int(logits[-1].argmax()))
            states = np.concatenate([states, given[-1:]])
            following.append(expected[-1])
        first, _ = published(hidden, text[1:])
        track = drafts.tracks[0]
        assert track.row == pytest.approx(first[-1], rel=1e-3, abs=1e-3)
        assert found == expected
        assert drafts.draft(0, text, 2, 49) == expected[:2]


@pytest.mark.parametrize(
    "setting",
    ["warm", *(pytest.param(name, marks=pytest.mark.full) for name in list(SETTINGS)[1:])],
)
def test_the_same_answers(model: Model, setting: str) -> None:
    given = {"n": 40, "bias": BIAS} | SETTINGS[setting]
    requests = [asked(i, IDS[50 * i :][: 10 + 37 * i], **given) for i in (1, 2)]
    told = []
    for kind in ("none", "mtp"):
        many = Many(model, economy=Guessing(4) if kind == "mtp" else Fixed(0))
        for request in requests:
            many.ask(replace(request, speculation=Speculation(kind)))
        many.finish()
        told.append([many.tokens(i) for i in (1, 2)])
        stats = [many.end(i).stats for i in (1, 2)]  # type: ignore[union-attr]
        assert all(bool(one.n_drafted) == (kind == "mtp") for one in stats)
        pieces = [p for i in (1, 2) for p in many.told[i] if isinstance(p, Piece)]
        infos = [info for piece in pieces for info in piece.tokens]
        assert {info.source for info in infos} == ({"", "mtp"} if kind == "mtp" else {""})
    assert told[0] == told[1]
    if "sampling" in given:
        assert 5 < sum(one.n_accepted for one in stats) < sum(one.n_drafted for one in stats) - 5


def test_what_it_knows_after_drafts_none_and_drafts(model: Model) -> None:
    """After steps with drafts, some without and again with, the block guesses as one that read the
    text from its beginning; of a chat that goes on elsewhere one position at most is not read.
    """
    drafts, many = drafts_of(model), Many(model, economy=Guessing(4))

    def said(turn: int, tokens: list[int], kind: str) -> list[int]:
        many.ask(asked(turn, tokens, 15, bias=BIAS, speculation=Speculation(kind)))
        many.finish()
        return [*tokens, *many.tokens(turn)]

    def guessed(number: int, text: list[int]) -> list[int]:
        return drafts.draft(number, text, 3, len(text) - 1)

    text = said(1, IDS[:40], "mtp")
    text = said(2, [*text, *IDS[60:63]], "none")
    text = said(3, [*text, IDS[7]], "mtp")
    used = max(many.slots.sequences, key=lambda one: one.shared(text))
    number, text = used.number, text[: len(used.items) + 1]
    found = guessed(number, text)
    assert NOT_READ not in drafts.tracks[number].following
    parted = said(4, [*text[:30], *IDS[70:80]], "mtp")
    tracks = [one for one in drafts.tracks.values() if len(one.following) >= len(parted) - 3]
    assert any(one.following.count(NOT_READ) <= 1 for one in tracks)
    for one in range(N):
        model.loaded.stepper.forget(0, sequence=one)
    model.loaded.stepper.step(text[:-1], 0, [len(text) - 2])
    assert found == guessed(0, text)
    assert len(found) == 3


def test_what_is_read_again_shared_and_parts(tmp_path: Path) -> None:
    """A recurrent state goes back and what was accepted is computed again; a sequence shares what
    another has read; a text goes on elsewhere: what the block has read is what a fresh one reads.
    """
    path, text = with_block(tmp_path, "glm4moe"), IDS[:40]
    with load(path, spec_type="mtp", **OPTIONS) as model:
        stepper, drafts = model.loaded.stepper, drafts_of(model)

        def step(tokens: list[int], first: int, sequence: int = 0) -> None:
            stepper.step(tokens, first, [len(tokens) - 1], sequence=sequence)

        def guessed(text: list[int], sequence: int = 0) -> list[int]:
            return drafts.draft(sequence, text, 3, len(text) - 1)

        def following(sequence: int = 0) -> list[int]:
            return drafts.tracks[sequence].following

        def fresh(text: list[int]) -> list[int]:
            stepper.forget(0, sequence=1)
            step(text[:-1], 0, 1)
            return guessed(text, 1)

        step(text[:30], 0)
        assert guessed(text[:31]) == fresh(text[:31])
        step([*text[30:33], 5], 30)
        stepper.forget(30)
        assert guessed(text[:34]) == fresh(text[:34])
        step([*text[30:36], 7], 30)
        stepper.forget(36)
        assert guessed(text[:37]) == fresh(text[:37])
        assert following() == text[1:37]
        stepper.forget(0, sequence=1)
        stepper.share(1, 0, 20)
        step(text[20:37], 20, 1)
        assert guessed(text[:38], 1) != []
        assert len(drafts.built.caches.caches[0].cells_of(1, 0, 37)) == 36
        read = enumerate(following(1), 1)
        assert [i for i, token in read if token != text[i]] == [20]  # its hidden state is gone
        other = [*text[:25], *IDS[60:70]]
        stepper.forget(25)
        step(other[25:-1], 25)
        assert guessed(other) != []
        assert following() == [*other[1:25], NOT_READ, *other[26:]]


def test_one_that_fails_drafts_nothing(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise DeviceError("host", "it is gone")

    request = asked(1, IDS[:30], 10)
    plain = Many(model)
    plain.ask(request)
    plain.finish()
    monkeypatch.setattr(drafts_of(model).stepper, "start_together", fail)
    many = Many(model, economy=Guessing(4))
    many.ask(replace(request, speculation=Speculation("mtp")))
    many.finish()
    assert many.tokens(1) == plain.tokens(1)


def test_files_without_a_block(tmp_path: Path) -> None:
    """`mtp` alone is refused, with what can be done; `auto` does without."""
    path = tiny(tmp_path, "llama")
    before = dict(system_pool().taken)
    for kind in ("mtp", "draft-mtp"):
        with pytest.raises(BadSetting, match="blocks that predict further tokens"):
            load(path, device="host", ctx=64, spec_type=kind)
    with pytest.raises(BadSetting, match="no --model-draft"):
        load(path, device="host", ctx=64, spec_type="mtp", model_draft=str(path))
    for kind in ("auto", "ngram,mtp"):
        with load(path, device="host", ctx=64, spec_type=kind) as model:
            assert model.loaded.draft is None
    assert drafters("auto") == {"ngram", "draft", "mtp"}
    assert system_pool().taken == before


def test_its_memory_is_counted_and_freed(tmp_path: Path) -> None:
    """What a dry run foresees is what is allocated, with the block's weights and cells; without
    `mtp` there is none of it.
    """
    path, before = with_block(tmp_path, "deepseek_v3"), dict(system_pool().taken)
    sizes = []
    for kind in ("none", "mtp"):
        loaded = load_model(path, EngineOptions(device="host", ctx=64, spec_type=kind))
        built = loaded.built
        caches = [leaf for i in range(built.n_layer + 1) for leaf, _ in built.kept_by(i)]
        assert all(leaf in loaded.room.placed for leaf in caches)
        sizes.append((len(caches), sum(t.nbytes for t in built.sources)))
        assert (loaded.draft_source == "mtp") == (kind == "mtp")
        loaded.close()
        assert system_pool().taken == before
    assert sizes[1][0] == sizes[0][0] + 1
    assert sizes[1][1] > sizes[0][1]
