"""A recorded answer: the same answer, every launch in its place, bounded, its cost told."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from engine.graph.work import work_of
from engine.inside.live import LiveWatch
from engine.protocol import (
    AnswerRecorded,
    Finished,
    Generate,
    Live,
    Load,
    MeasureRoofs,
    Piece,
    RecordedStep,
    Reply,
    Sampling,
)
from engine.runner import launched, recording
from engine.runner.generate import generate
from engine.runner.loading import LoadedModel, load_model
from engine.runner.profile import step_record
from engine.runner.prompt import make_prompt
from engine.runner.sequence import Sequenced
from engine.runner.stepper import TEXT
from engine.scheduler.record import Recording
from engine.settings import EngineOptions
from engine.worker import Worker

HOST = EngineOptions(device="host", ctx=256)
RECORD = Live(record=True)
REPEATING = Sampling(temperature=0, frequency_penalty=-100)  # an answer without an end


@pytest.fixture
def model(tiny_path: Path) -> Iterator[LoadedModel]:
    with closing(load_model(tiny_path, HOST)) as opened:
        yield opened


def told(model: LoadedModel, live: Callable[[], Live], n: int = 20) -> list[Reply]:
    sequence = Sequenced(model.stepper)
    request = Generate(1, prompt="abcdefgh", sampling=REPEATING, max_tokens=n)
    watch = LiveWatch(1, sequence, False, live)
    try:
        replies = list(generate(model, sequence, request, lambda: False, watch))
    finally:
        watch.close()
    model.stepper.forget(0)
    assert isinstance(replies[-1], Finished)
    return replies


def ids(replies: list[Reply]) -> list[int]:
    return [info.token for r in replies if isinstance(r, Piece) for info in r.tokens]


def recorded(replies: list[Reply]) -> list[AnswerRecorded]:
    return [r for r in replies if isinstance(r, AnswerRecorded)]


def column(data: bytes) -> list[int]:
    return np.frombuffer(data, "<i8").tolist()


def names(answer: AnswerRecorded, step: RecordedStep) -> list[tuple[str, str, str]]:
    kinds = [answer.kinds[i] for i in np.frombuffer(step.kinds, "<i4")]
    return [(kind.device, kind.op, kind.name) for kind in kinds]


def test_every_launch_of_every_step(model: LoadedModel) -> None:
    plain, replies = told(model, Live), told(model, lambda: RECORD)
    assert recorded(plain) == []
    assert ids(replies) == ids(plain)
    (answer,) = recorded(replies)
    assert [step.phase for step in answer.steps[:2]] == ["prefill", "decode"]
    n_prompt = answer.steps[0].n_tokens
    assert n_prompt > 1
    # Of 19 steps of one token each eighth is plain.
    contexts = [step.n_context for step in answer.steps[1:]]
    assert contexts == [n_prompt + i for i in range(19) if i not in (2, 10, 18)]
    assert (answer.every, answer.n_dropped) == (1, 0)
    assert answer.plain_ns > 0
    assert answer.recorded_ns > 0
    ends = 0
    for step in answer.steps:
        starts, stops = column(step.starts), column(step.ends)
        assert all(0 <= a <= b for a, b in zip(starts, stops, strict=True))
        assert max(stops) <= step.step_ns
        assert step.start >= ends, "steps follow each other"
        ends = step.start + step.step_ns
        assert [span.name for span in step.host][-1] == "logits"
        assert step.splits[0].n_nodes > 0


@pytest.mark.parametrize("number", [0, 1], ids=["prefill", "decode"])
def test_a_step_is_what_a_recording_of_it_alone_says(model: LoadedModel, number: int) -> None:
    replies = told(model, lambda: RECORD, 3)
    (answer,) = recorded(replies)
    step = answer.steps[number]
    request = Generate(1, prompt="abcdefgh")
    prompt = make_prompt(model.tokenizer, model.template, request, 256, None)
    sequence = Sequenced(model.stepper)
    part = prompt.items
    if number:
        sequence.begin(part, TEXT)()
        part = ids(replies)[:1]
    alone = Recording()
    sequence.begin(part, TEXT, alone)()
    alone.done("logits")
    record, ran = step_record(alone), alone.launches()
    assert names(answer, step) == [(device, one.node.op, one.node.name) for _, device, one in ran]
    work = [work_of(one.node, alone.inputs) for _, _, one in ran]  # on the host a launch a node
    assert column(step.sizes) == [one.bytes for one in work] == [r.bytes for r in record.launches]
    assert column(step.flops) == [one.flops for one in work] == [r.flops for r in record.launches]
    began = alone.started
    spans = [(one.start - began, one.end - began) for _, _, one in ran]
    assert [(one.start, one.end) for one in record.launches] == spans
    assert [s.n_nodes for s in step.splits] == [s.n_nodes for s in record.splits]
    assert sum(s.compute_ns for s in record.splits) == sum(end - start for start, end in spans)
    model.stepper.forget(0)


def test_what_launches_are_is_found_once(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps of a plan that was recorded before ask for nothing but when launches ran."""
    (first,) = recorded(told(model, lambda: RECORD, 4))

    def never(*_: object) -> NoReturn:
        raise AssertionError("this is known")

    monkeypatch.setattr(launched, "fixed_work", never)
    (again,) = recorded(told(model, lambda: RECORD, 4))
    assert [step.sizes for step in again.steps] == [step.sizes for step in first.steps]
    assert len({step.sizes for step in first.steps}) == len(first.steps), "cells that are seen"


def test_a_long_answer_is_thinned_and_says_so(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    (whole,) = recorded(told(model, lambda: RECORD, 5))
    per_step = len(whole.steps[1].kinds) // 4
    monkeypatch.setattr(recording, "MOST_LAUNCHES", 12 * per_step)
    (answer,) = recorded(told(model, lambda: RECORD, 100))
    assert sum(len(step.kinds) // 4 for step in answer.steps) <= 12 * per_step
    assert answer.every > 1
    assert answer.n_dropped > 0
    contexts = [step.n_context for step in answer.steps if step.phase == "decode"]
    assert contexts[0] < 20
    assert contexts[-1] > 90, "from the answer's begin to its end"
    assert answer.steps[0].phase == "prefill"


def test_it_is_told_when_it_is_no_longer_wanted(model: LoadedModel) -> None:
    asked = []

    def live() -> Live:
        asked.append(1)
        return RECORD if len(asked) < 15 else Live()

    replies = told(model, live, 60)
    (answer,) = recorded(replies)
    at = replies.index(answer)
    assert any(isinstance(reply, Piece) for reply in replies[at:])
    assert len(answer.steps) < 20


def test_a_worker_records_and_measures_roofs(worker: Worker, tiny_path: Path) -> None:
    worker.get(Load(worker.new_id(), str(tiny_path), HOST))
    request = Generate(worker.new_id(), prompt="abc", sampling=REPEATING, max_tokens=9, live=RECORD)
    (answer,) = recorded(list(worker.run(request)))
    assert len(answer.steps) == 1 + 7
    roofs = worker.get(MeasureRoofs(worker.new_id())).roofs
    assert roofs == [], "the host has none"
