"""The worker with several answers at once: who waits for whom, and that everybody is told once."""

from collections.abc import Iterator
from pathlib import Path

import gguf
import pytest

from engine.protocol import (
    Bench,
    BenchDone,
    BenchTest,
    Cancel,
    Change,
    DumpResults,
    Examine,
    Examined,
    Failed,
    Finished,
    Generate,
    ListSlots,
    Live,
    Load,
    Loaded,
    Look,
    Piece,
    ProbedTokens,
    Render,
    Reply,
    ResultsDumped,
    Sampling,
    SlotTable,
)
from engine.protocol.talk.chat import ChatMessage
from engine.settings import EngineOptions
from engine.worker import Worker
from tests.engine.kept import KeptWorker
from tests.goldens.tiny import write_tiny

FOREVER = 100_000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of a long context."""
    path = tmp_path_factory.mktemp("many") / "tiny.gguf"
    length = (1 << 17, gguf.GGUFValueType.UINT32)
    return write_tiny(path, "llama", metadata={"llama.context_length": length})


@pytest.fixture
def worker(kept_worker: KeptWorker, path: Path) -> Iterator[Worker]:
    """With that model, in which two are answered at once."""
    worker = kept_worker.start()
    options = EngineOptions(device="host", ctx=1024, parallel=2, cells=4096)
    assert isinstance(worker.get(Load(worker.new_id(), str(path), options)), Loaded)
    yield worker
    kept_worker.leave()


def ask(worker: Worker, text: str, n: int = FOREVER, **more: object) -> int:
    sampling = Sampling(temperature=0)
    given = {"prompt": text, "sampling": sampling, "max_tokens": n, "endless": True} | more
    request = Generate(worker.new_id(), **given)  # type: ignore[arg-type]
    worker.send(request)
    return request.id


def hear(worker: Worker, until: int, heard: list[Reply]) -> Reply:
    """All that is told up to a request's end."""
    while True:
        reply = worker.receive(60)
        assert reply is not None
        heard.append(reply)
        if reply.id == until and isinstance(reply, request_ends()):
            return reply


def request_ends() -> tuple[type[Reply], ...]:
    return (Finished, Failed, Examined, ResultsDumped, BenchDone, SlotTable)


def pieces(heard: list[Reply], number: int) -> int:
    return sum(isinstance(one, Piece) and one.id == number for one in heard)


def test_short_answers_do_not_wait_for_an_endless_one(worker: Worker) -> None:
    heard: list[Reply] = []
    endless = ask(worker, "the other")
    for text in ("one thing", "and then", "one thing"):
        assert isinstance(hear(worker, ask(worker, text, 5), heard), Finished)
    assert pieces(heard, endless) > 5
    worker.send(Cancel(endless))
    end = hear(worker, endless, heard)
    assert isinstance(end, Finished)
    assert end.reason == "cancelled"
    ends = [one.id for one in heard if isinstance(one, Finished | Failed)]
    assert len(ends) == len(set(ends)) == 4


def test_a_third_waits_for_a_slot_and_can_be_cancelled_there(worker: Worker) -> None:
    heard: list[Reply] = []
    first, second = ask(worker, "the other"), ask(worker, "one thing")
    third, fourth = ask(worker, "and then", 3), ask(worker, "wait", 3)
    worker.send(Cancel(fourth))
    end = hear(worker, fourth, heard)
    assert isinstance(end, Failed)
    assert end.kind == "Cancelled"
    assert not pieces(heard, third)
    worker.send(Cancel(first))
    assert isinstance(hear(worker, third, heard), Finished)
    worker.send(Cancel(second))
    hear(worker, second, heard)


def test_looking_does_not_wait_and_disturbs_nobody(worker: Worker) -> None:
    """Render, ListSlots, Examine and DumpResults while an answer goes on for ever; which says what
    it says alone.
    """
    alone: list[Reply] = []
    hear(worker, ask(worker, "the other", 60), alone)
    said = "".join(one.text for one in alone if isinstance(one, Piece))
    heard: list[Reply] = []
    endless = ask(worker, "the other")
    message = ChatMessage("user", "hi")
    assert worker_get(worker, Render(worker.new_id(), [message]), heard)
    table = worker_get(worker, ListSlots(worker.new_id()), heard)
    assert isinstance(table, SlotTable)
    assert [row.request for row in table.slots].count(endless) == 1
    examine = Examine(worker.new_id(), prompt="the other thing", lens=True)
    found = worker_get(worker, examine, heard)
    assert isinstance(found, Examined)
    assert found.lens is not None
    dumped = worker_get(worker, DumpResults(worker.new_id(), ["l_out-1"], prompt="one"), heard)
    assert isinstance(dumped, ResultsDumped)
    while pieces(heard, endless) < 60:
        heard.append(worker.receive(60) or pytest.fail("silence"))
    worker.send(Cancel(endless))
    hear(worker, endless, heard)
    more = "".join(one.text for one in heard if isinstance(one, Piece) and one.id == endless)
    assert more.startswith(said[:-1])


def worker_get(worker: Worker, request: object, heard: list[Reply]) -> Reply:
    worker.send(request)  # type: ignore[arg-type]
    while True:
        reply = worker.receive(60)
        assert reply is not None
        assert not (isinstance(reply, Failed) and reply.id == request.id), reply  # type: ignore[attr-defined]
        heard.append(reply)
        if reply.id == request.id and isinstance(reply, request.ends):  # type: ignore[attr-defined]
            return reply


def test_what_needs_the_model_waits_until_nobody_is_answered(worker: Worker) -> None:
    """A benchmark begins when running answers have ended, and later ones wait for it."""
    heard: list[Reply] = []
    first = ask(worker, "the other", 40)
    bench = Bench(worker.new_id(), BenchTest(4, 0), repetitions=1)
    worker.send(bench)
    last = ask(worker, "one thing", 3)
    for number in (first, bench.id, last):
        hear(worker, number, heard)
    ends = [one.id for one in heard if isinstance(one, Finished | BenchDone)]
    assert ends == [first, bench.id, last]
    begun = next(i for i, one in enumerate(heard) if one.id == last)
    assert isinstance(heard[begun - 1], BenchDone | SlotTable) or heard[begun - 1].id == bench.id


def test_one_is_looked_into_beside_another(worker: Worker) -> None:
    """Probes tell of the answer that is looked at, of each token, and the other says the same."""
    alone: list[Reply] = []
    hear(worker, ask(worker, "one thing", 20), alone)
    heard: list[Reply] = []
    seen = ask(worker, "the other", 20, live=Live(probes=["l_out-1"]))
    other = ask(worker, "one thing", 20)
    for number in (seen, other):
        if not any(one.id == number and isinstance(one, Finished) for one in heard):
            hear(worker, number, heard)
    told = [one for one in heard if isinstance(one, ProbedTokens)]
    assert {one.id for one in told} == {seen}
    assert [one.first for one in told][:1] == [0]
    counts = sum(len(one.rms) // 4 // max(1, len(one.rows)) for one in told)
    assert counts == 19  # the last token is read by nobody
    said = [one.text for one in heard if isinstance(one, Piece) and one.id == other]
    assert "".join(said) == "".join(one.text for one in alone if isinstance(one, Piece))


def test_a_look_from_the_middle_on_counts_the_tokens_before(worker: Worker) -> None:
    """Those that were computed in steps with others, too."""
    heard: list[Reply] = []
    other, seen = ask(worker, "one thing"), ask(worker, "the other", 400)
    while pieces(heard, seen) < 10:
        heard.append(worker.receive(60) or pytest.fail("silence"))
    worker.send(Look(seen, Live(probes=["l_out-1"])))
    hear(worker, seen, heard)
    told = [one for one in heard if isinstance(one, ProbedTokens)]
    assert told[0].first >= 9
    last = told[-1]
    assert last.first + len(last.rms) // 4 // len(last.rows) == 399  # the last is read by nobody
    worker.send(Cancel(other))
    hear(worker, other, heard)


def test_a_changed_model_answers_beside_others(worker: Worker) -> None:
    """It shares their steps, and none of the cells that it computes otherwise."""
    heard: list[Reply] = []
    first = ask(worker, "the other", 40)
    changed = ask(worker, "the other", 5, changes=[Change(1, factor=0.0)])
    last = ask(worker, "the other", 5)
    hear(worker, first, heard)
    ends = [one.id for one in heard if isinstance(one, Finished)]
    assert sorted(ends) == [first, changed, last]
    assert ends[-1] == first
    said = {
        number: "".join(one.text for one in heard if isinstance(one, Piece) and one.id == number)
        for number in (first, changed, last)
    }
    assert said[first].startswith(said[last][:-1])
    assert said[changed] != said[last]


def test_random_clients(worker: Worker) -> None:
    """Requests come and are cancelled at odd moments: each ends once."""
    heard: list[Reply] = []
    numbers = []
    for i in range(24):
        numbers.append(ask(worker, f"text {i % 5} " * (1 + i % 7), 3 + i % 11))
        if i % 4 == 3:
            worker.send(Cancel(numbers[i // 2]))
            worker.send(Cancel(numbers[-1]))
    missing = set(numbers)
    while missing:
        reply = worker.receive(60)
        assert reply is not None
        heard.append(reply)
        if isinstance(reply, Finished | Failed):
            missing.remove(reply.id)  # once
    table = worker.get(ListSlots(worker.new_id()))
    assert [row.request for row in table.slots] == [0, 0]
    assert table.n_waiting == 0
