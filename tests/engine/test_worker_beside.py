"""Plans are answered beside a running answer: nothing waits for what never ends."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.protocol import (
    Cancel,
    DescribePlan,
    EncodedText,
    EncodeText,
    Failed,
    Generate,
    Load,
    Loaded,
    MeasureDevices,
    Planned,
    Predict,
    PredictedMemory,
    Progress,
    Reply,
    Reprice,
    Repriced,
    Sampling,
    Unload,
)
from engine.settings import EngineOptions
from engine.worker import RemoteError, Worker
from tests.engine.kept import KeptWorker
from tests.engine.waiting import Noise, PlanForEver, WaitForEver
from tests.program import REPEATS

HOST = EngineOptions(device="host", ctx=64)
DEADLINE = 60.0
"""Seconds after which something waits that must not."""


@pytest.fixture(scope="module")
def kept_worker() -> Iterator[KeptWorker]:
    kept = KeptWorker("tests.engine.waiting")
    yield kept
    kept.close()


def until(worker: Worker, *ids: int) -> dict[int, Reply]:
    """The last reply to each of these requests."""
    found: dict[int, Reply] = {}
    while set(found) != set(ids):
        reply = worker.receive(DEADLINE)
        assert reply is not None, f"{set(ids) - set(found)} wait"
        if reply.id in ids and not isinstance(reply, Progress | Noise):
            found[reply.id] = reply
    return found


def begun(worker: Worker, request: WaitForEver | PlanForEver) -> int:
    worker.send(request)
    while not (isinstance(reply := worker.receive(DEADLINE), Progress) and reply.id == request.id):
        assert reply is not None
    return request.id


def test_an_answer_that_never_ends_keeps_no_plan_waiting(worker: Worker, tiny_path: Path) -> None:
    for options in (HOST, replace(HOST, place="0=host")):
        worker.get(Load(worker.new_id(), str(tiny_path), options))
        waiting = begun(worker, WaitForEver(worker.new_id()))
        asked = [kind(worker.new_id(), str(tiny_path), HOST) for kind in (Reprice, DescribePlan)]
        asked += [Predict(worker.new_id(), str(tiny_path), HOST)]  # type: ignore[list-item]
        for request in asked:
            worker.send(request)
        kinds = [type(reply) for _, reply in sorted(until(worker, *(a.id for a in asked)).items())]
        assert kinds == [Repriced, Planned, PredictedMemory]
        with pytest.raises(RemoteError, match="nothing_so_named"):
            worker.get(
                Reprice(
                    worker.new_id(), str(tiny_path), replace(HOST, place="nothing_so_named=host")
                )
            )
        worker.send(Cancel(waiting))
        assert isinstance(until(worker, waiting)[waiting], Failed)


def test_nor_does_a_plan_keep_an_answer_waiting(worker: Worker, tiny_path: Path) -> None:
    """Plans wait for each other, in order, and can be cancelled while they do."""
    planning = begun(worker, PlanForEver(worker.new_id()))
    second, third = (Reprice(worker.new_id(), str(tiny_path), HOST) for _ in range(2))
    worker.send(second)
    worker.send(third)
    worker.get(Load(worker.new_id(), str(tiny_path), HOST))
    answer = Generate(
        worker.new_id(), prompt=REPEATS, sampling=Sampling(temperature=0), max_tokens=3
    )
    assert worker.get(answer).stats.n_generated == 3
    worker.send(Cancel(second.id))
    worker.send(Cancel(planning))
    last = until(worker, planning, second.id, third.id)
    assert [type(last[i]) for i in (planning, second.id, third.id)] == [Failed, Failed, Repriced]
    assert isinstance(last[second.id], Failed)
    assert list(last) == [planning, second.id, third.id]


def test_messages_of_both_stay_whole(worker: Worker, tiny_path: Path) -> None:
    """One thread tells without a pause while the other loads, answers and tells of memory."""
    planning = begun(worker, PlanForEver(worker.new_id(), size=300_000))
    for _ in range(3):
        worker.send(load := Load(worker.new_id(), str(tiny_path), HOST))
        answer = Generate(worker.new_id(), prompt="the", max_tokens=20)
        worker.send(answer)
        worker.send(unload := Unload(worker.new_id()))
        last = until(worker, load.id, answer.id, unload.id)
        assert isinstance(last[load.id], Loaded)
    worker.send(Cancel(planning))
    assert isinstance(until(worker, planning)[planning], Failed)


def test_the_worker_ends_while_both_wait(worker: Worker, tiny_path: Path) -> None:
    worker.get(Load(worker.new_id(), str(tiny_path), HOST))
    begun(worker, WaitForEver(worker.new_id()))
    begun(worker, PlanForEver(worker.new_id()))
    worker.send(Reprice(worker.new_id(), str(tiny_path), HOST))
    worker.close()
    assert not worker.alive


def test_the_open_model_is_priced_as_it_lies(worker: Worker, tiny_path: Path) -> None:
    """Not as it would be fitted now: another budget would have moved it."""
    worker.get(Load(worker.new_id(), str(tiny_path), HOST))
    ours = worker.get(Reprice(worker.new_id(), str(tiny_path), HOST))
    assert ours.layers == ["host"] * 4
    assert ours.problem == ""
    assert ours.reasons == [
        "host takes layers 0-2 and the output block: no other device is in use for layers"
    ]
    assert ours.causes == ours.reasons * 4


def test_texts_are_encoded_beside_what_never_ends(worker: Worker, tiny_path: Path) -> None:
    load = Load(worker.new_id(), str(tiny_path), HOST)
    worker.send(load)
    until(worker, load.id)
    endless = begun(worker, WaitForEver(worker.new_id()))
    asked = EncodeText(worker.new_id(), "abcd")
    worker.send(asked)
    assert isinstance(until(worker, asked.id)[asked.id], EncodedText)
    worker.send(Cancel(endless))
    until(worker, endless)


@pytest.mark.device
def test_memory_comes_with_the_speed_of_measured_devices(worker: Worker, tiny_path: Path) -> None:
    """The same as in the plan; none on the host, which is not measured."""
    options = EngineOptions(ctx=64, threads=2)
    request = (str(tiny_path), options)
    worker.get(MeasureDevices(worker.new_id(), *request))
    predicted = worker.get(Predict(worker.new_id(), *request))
    planned = worker.get(DescribePlan(worker.new_id(), *request))
    assert isinstance(predicted, PredictedMemory)
    assert isinstance(planned, Planned)
    assert planned.speed is not None
    assert predicted.tokens_per_s == planned.speed.tokens_per_s > 0
    unmeasured = Predict(worker.new_id(), str(tiny_path), HOST)
    assert worker.get(unmeasured).tokens_per_s is None
