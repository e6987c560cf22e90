"""What is answered in parts beside answers that never end: they go on between two parts."""

from collections.abc import Iterator
from pathlib import Path

import gguf
import pytest

from engine.protocol import (
    AnswerScored,
    Cancel,
    Change,
    Compare,
    Compared,
    ComparedText,
    CompareTexts,
    Embed,
    Embedded,
    Failed,
    Finished,
    Generate,
    ListSlots,
    Load,
    Loaded,
    Perplexity,
    PerplexityDone,
    Piece,
    Progress,
    Reply,
    Request,
    Sampling,
    ScoreAnswer,
    SlotTable,
    TextsCompared,
)
from engine.settings import EngineOptions
from engine.worker import Worker
from tests.goldens.tiny import write_tiny

ENDS = (AnswerScored, Compared, Embedded, PerplexityDone, TextsCompared)
TEXT = "the other thing and then one " * 40


@pytest.fixture
def worker(tmp_path: Path, nothing_left: None) -> Iterator[Worker]:
    length = (1 << 17, gguf.GGUFValueType.UINT32)
    path = write_tiny(tmp_path / "tiny.gguf", "llama", metadata={"llama.context_length": length})
    with Worker() as worker:
        options = EngineOptions(device="host", ctx=1024, parallel=2, cells=2048)
        assert isinstance(worker.get(Load(worker.new_id(), str(path), options)), Loaded)
        yield worker


def asked(worker: Worker) -> list[Request]:  # type: ignore[type-arg]
    """One of each kind; of a changed model, too."""
    id = worker.new_id
    return [
        CompareTexts(
            id(), ComparedText(prompt=TEXT[:300]), ComparedText(prompt=TEXT[:200] + "a" + TEXT)
        ),
        Compare(id(), prompt=TEXT[:60]),
        ScoreAnswer(id(), prompt=TEXT, tokens=list(range(5, 60))),
        ScoreAnswer(id(), prompt=TEXT, tokens=list(range(5, 60)), changes=[Change(1, factor=0.0)]),
        Embed(id(), [TEXT, "one", "and then", TEXT[:50]]),
        Perplexity(id(), TEXT * 3, 512, top_k=3),
    ]


def heard_until(worker: Worker, number: int) -> list[Reply]:
    """All that is told up to a request's end."""
    heard: list[Reply] = []
    while not heard or heard[-1].id != number or not isinstance(heard[-1], (Finished, *ENDS)):
        reply = worker.receive(60)
        assert reply is not None
        assert not isinstance(reply, Failed), reply
        heard.append(reply)
    return heard


def write(worker: Worker, n: int) -> Generate:
    sampling = Sampling(temperature=0)
    request = Generate(
        worker.new_id(), prompt="the other", sampling=sampling, max_tokens=n, endless=True
    )
    worker.send(request)
    return request


def said(heard: list[Reply], number: int) -> str:
    return "".join(one.text for one in heard if isinstance(one, Piece) and one.id == number)


def test_what_has_parts_takes_turns_with_an_endless_answer(worker: Worker) -> None:
    """Each tells what it tells alone, and so does the answer, of which no kind holds up more than
    a token for each of its parts.
    """
    first = write(worker, 150)
    alone = said(heard_until(worker, first.id), first.id)
    expected = []
    for request in asked(worker):
        worker.send(request)
        expected.append(heard_until(worker, request.id)[-1])
    endless, heard = write(worker, 1 << 20), []
    for request, wanted in zip(asked(worker), expected, strict=True):
        worker.send(request)
        more = heard_until(worker, request.id)
        assert_same(more[-1], wanted)
        told = [one for one in more if isinstance(one, Progress) and one.id == request.id]
        written = sum(isinstance(one, Piece) for one in more)
        assert written >= max(1, len(told) - 1), request
        heard += more
    worker.send(Cancel(endless.id))
    heard += heard_until(worker, endless.id)
    together = said(heard, endless.id)
    n = min(len(alone), len(together)) - 2  # the last may be half a character
    assert n > 30
    assert together[:n] == alone[:n]
    table = worker.get(ListSlots(worker.new_id()))
    assert isinstance(table, SlotTable)
    assert [row.request for row in table.slots] == [0, 0]


def assert_same(one: Reply, other: Reply) -> None:
    """But for the last bits: parts are computed by kernels for their own sizes."""
    if isinstance(one, PerplexityDone) and isinstance(other, PerplexityDone):
        assert one.perplexity == pytest.approx(other.perplexity, rel=1e-5)
    elif isinstance(one, AnswerScored) and isinstance(other, AnswerScored):
        found, wanted = (memoryview(x.logprobs).cast("f").tolist() for x in (one, other))
        assert found == pytest.approx(wanted, abs=1e-3)
    elif isinstance(one, Embedded) and isinstance(other, Embedded):
        found, wanted = (memoryview(x.vectors).cast("f").tolist() for x in (one, other))
        assert found == pytest.approx(wanted, abs=1e-4)
    elif isinstance(one, Compared) and isinstance(other, Compared):
        assert (one.first, one.n_tokens) == (other.first, other.n_tokens) == (None, one.n_tokens)
    elif isinstance(one, TextsCompared) and isinstance(other, TextsCompared):
        assert one.pairs == other.pairs
        assert one.first == other.first


def test_where_all_are_in_use_it_waits_and_can_be_cancelled(worker: Worker) -> None:
    """It begins when nobody is answered, and what came later after it."""
    first, second = write(worker, 40), write(worker, 30)
    waiting = ScoreAnswer(worker.new_id(), prompt=TEXT, tokens=[5, 6])
    cancelled = ScoreAnswer(worker.new_id(), prompt=TEXT, tokens=[5, 6])
    for request in (waiting, cancelled):
        worker.send(request)
    last = write(worker, 3)
    worker.send(Cancel(cancelled.id))
    ends: list[int] = []
    while last.id not in ends:
        reply = worker.receive(60)
        assert reply is not None
        if isinstance(reply, (Finished, Failed, *ENDS)):
            assert isinstance(reply, Failed) == (reply.id == cancelled.id)
            ends.append(reply.id)
    ends.remove(cancelled.id)
    assert ends == [second.id, first.id, waiting.id, last.id]


def test_a_cancelled_part_leaves_nothing(worker: Worker) -> None:
    endless = write(worker, 1 << 20)
    scoring = Perplexity(worker.new_id(), TEXT * 30, 512)
    worker.send(scoring)
    while not (isinstance(reply := worker.receive(60), Progress) and reply.id == scoring.id):
        assert reply is not None
    worker.send(Cancel(scoring.id))
    while not (isinstance(reply := worker.receive(60), Failed)):
        assert reply is not None
    assert reply.kind == "Cancelled"
    worker.send(Cancel(endless.id))
    heard_until(worker, endless.id)
    table = worker.get(ListSlots(worker.new_id()))
    assert isinstance(table, SlotTable)
    held = sum(row.n_tokens for row in table.slots)
    assert table.n_cells - table.n_free == held
