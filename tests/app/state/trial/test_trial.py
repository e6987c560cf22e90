"""Edits are tried with a real model: both answers, what each model makes of both, the mark."""

from pathlib import Path

import numpy as np
import pytest

from app.state.talk.edits import NO_EDITS, ChatEdit, EditSet
from app.state.talk.message import Message
from app.state.workbench import Workbench
from engine.protocol import Edit, Sampling
from engine.settings import EngineOptions
from tests.app.state.conftest import Until


def of_layer(layer: int, by: float = 0.0) -> EditSet:
    """What a layer adds, times a factor."""
    return EditSet((ChatEdit(Edit.of("scale", "residual", layer, by, delta=True)),))


SKIPPED = of_layer(1)
ENDS = 12  # tokens


@pytest.fixture
def asked(bench: Workbench, tiny_path: Path, until: Until) -> Workbench:
    """A tiny model on the host has answered a question."""
    bench.open_model(tiny_path, EngineOptions(device="host", ctx=256))
    until(lambda: bench.session.status == "ready")
    bench.chat.details.set_sampling(Sampling(temperature=0.0))
    assert bench.chat.send("the hat on the mat")
    stop(bench, until)
    return bench


def stop(bench: Workbench, until: Until) -> None:
    chat = bench.chat
    until(lambda: not chat.busy or chat.path[-1].n_tokens >= ENDS)
    chat.stop()
    until(lambda: not chat.busy)


def kept(bench: Workbench) -> list[Message]:
    """As a window that opens the chat later sees them."""
    return list(bench.chat.store.tree(bench.chat.chat_id or 0).messages.values())


def test_both_answers_are_found_as_likely_as_each_model_finds_them(
    asked: Workbench, until: Until
) -> None:
    chat, trial = asked.chat, asked.trial
    plain = chat.path[-1]
    assert trial.start(SKIPPED)
    assert chat.path[-1] is not plain
    stop(asked, until)
    until(lambda: not trial.busy)
    both = trial.answers()
    assert tuple(one.message for one in both) == (plain, chat.path[-1])
    for one in both:
        assert one.plain is not None
        assert one.edited is not None
        assert len(one.plain) == len(one.edited) == len(one.tokens) > 0
        assert np.abs(one.plain - one.edited).max() > 1e-3
    # Each is likeliest to the model that wrote it: it always took the likeliest word.
    assert both[0].plain.sum() >= both[0].edited.sum()
    assert both[1].edited.sum() >= both[1].plain.sum()
    assert trial.problem == ""


def test_it_is_marked_for_ever_and_another_answer_is_not(asked: Workbench, until: Until) -> None:
    chat = asked.chat
    assert asked.trial.start(SKIPPED)
    row = len(chat.path) - 1
    tried = chat.path[row]
    assert tried.edits == SKIPPED  # before a word of it is there
    stop(asked, until)
    assert {m.id: m.edits for m in kept(asked)}[tried.id] == SKIPPED
    assert chat.continue_answer(row)
    stop(asked, until)
    assert chat.path[row].edits == SKIPPED
    assert chat.regenerate(row)
    stop(asked, until)
    assert chat.path[row].edits == NO_EDITS
    assert [bool(m.edits) for m in kept(asked)] == [False, False, True, False]


def test_factor_one_gives_the_same_answer(asked: Workbench, until: Until) -> None:
    chat, plain = asked.chat, asked.chat.path[-1]
    assert asked.trial.start(of_layer(1, 1.0))
    until(lambda: chat.path[-1].n_tokens >= plain.n_tokens or not chat.busy)
    chat.stop()
    until(lambda: not chat.busy)
    n = min(plain.n_tokens, chat.path[-1].n_tokens)
    assert chat.tokens(1).ids[:n] == chat.tokens_of(plain).ids[:n]


def test_what_is_refused_stays_marked_and_says_why(asked: Workbench, until: Until) -> None:
    chat = asked.chat
    assert asked.trial.start(of_layer(99))
    until(lambda: not chat.busy)
    assert chat.path[-1].finish == "failed"
    assert "layer" in chat.path[-1].problem
    assert chat.path[-1].edits == of_layer(99)
    until(lambda: not asked.trial.busy)
    assert asked.session.status == "ready"


def test_an_older_trial_is_compared_again_and_nothing_of_another_chat(
    asked: Workbench, until: Until
) -> None:
    chat, trial = asked.chat, asked.trial
    assert trial.start(SKIPPED)
    stop(asked, until)
    until(lambda: not trial.busy)
    tried = chat.path[-1]
    trial.forget()
    assert trial.answers() == ()
    trial.show(tried)
    until(lambda: not trial.busy)
    assert trial.answers()[1].plain is not None
    chat.open(None)
    assert trial.answers() == ()
    assert trial.edits == NO_EDITS
