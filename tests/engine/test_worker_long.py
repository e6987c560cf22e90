"""The worker with texts that take long to tokenise: nobody else waits, and who leaves ends it."""

from collections.abc import Iterator
from pathlib import Path

import gguf
import pytest

from engine.protocol import (
    Cancel,
    ChatMessage,
    Embed,
    EncodedText,
    EncodeText,
    Failed,
    Finished,
    Generate,
    ListSlots,
    Load,
    Loaded,
    Render,
    Rendered,
    Reply,
    Request,
    Sampling,
    SlotTable,
)
from engine.settings import EngineOptions
from engine.worker import Worker
from tests.engine.kept import KeptWorker
from tests.goldens.tiny import write_tiny

LONG = "a" * 2_000_000  # seconds of work
HUGE = "a" * 12_000_000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long") / "tiny.gguf"
    length = (1 << 17, gguf.GGUFValueType.UINT32)
    return write_tiny(path, "llama", metadata={"llama.context_length": length})


@pytest.fixture
def worker(kept_worker: KeptWorker, path: Path) -> Iterator[Worker]:
    worker = kept_worker.start()
    options = EngineOptions(device="host", ctx=512, parallel=2)
    assert isinstance(worker.get(Load(worker.new_id(), str(path), options)), Loaded)
    yield worker
    kept_worker.leave()


def ends(worker: Worker, *numbers: int, before: int = 0) -> list[Reply]:
    """The replies that end these requests, in the order they come: all `before` another ends."""
    found: list[Reply] = []
    while len(found) < len(numbers):
        reply = worker.receive(120)
        assert reply is not None
        kinds = Finished | Failed | EncodedText | Rendered | SlotTable
        if isinstance(reply, kinds) and reply.id:
            assert reply.id != before
            if reply.id in numbers:
                found.append(reply)
    return found


def small(worker: Worker) -> Generate:
    return Generate(worker.new_id(), prompt="the hat", sampling=Sampling(0), max_tokens=8)


@pytest.mark.parametrize("kind", ["answer", "count", "tokens", "embedding"])
def test_nobody_waits_for_a_long_text_and_who_leaves_ends_it(worker: Worker, kind: str) -> None:
    number = worker.new_id()
    requests: dict[str, Request[Reply]] = {
        "answer": Generate(number, prompt=LONG, when_full="shift", max_tokens=1),
        "count": Render(number, [ChatMessage("user", LONG)]),
        "tokens": EncodeText(number, LONG),
        # Each fits; all together take as long.
        "embedding": Embed(number, ["the hat " * 60] * 4000),
    }
    worker.send(requests[kind])
    first, second = small(worker), ListSlots(worker.new_id())
    worker.send(first)
    worker.send(second)
    told = ends(worker, first.id, second.id, before=number)
    assert {type(one) for one in told} == {Finished, SlotTable}
    worker.send(Cancel(number))
    (end,) = ends(worker, number)
    assert isinstance(end, Failed)
    assert end.kind == "Cancelled"
    assert isinstance(worker.get(small(worker)), Finished)


def test_a_text_that_cannot_fit_is_refused_before_it_is_tokenised(worker: Worker) -> None:
    """Each of these would take a minute, and gigabytes."""
    long = [ChatMessage("user", HUGE)]
    cases: list[tuple[Request[Reply], str, str]] = [
        (Generate(worker.new_id(), prompt=HUGE, when_full="stop"), "ContextFull", "at least"),
        (
            Generate(worker.new_id(), prompt_tokens=[5] * 600, when_full="stop"),
            "ContextFull",
            "600 tokens",
        ),
        (Generate(worker.new_id(), prompt=HUGE, when_full="shift"), "BadSetting", "12,000,000"),
        (EncodeText(worker.new_id(), HUGE), "BadSetting", "12,000,000"),
        (Render(worker.new_id(), long), "BadSetting", "12,000,"),
        (Embed(worker.new_id(), [LONG]), "BadSetting", "tokens"),
    ]
    for request, kind, part in cases:
        worker.send(request)
        (end,) = ends(worker, request.id)
        assert isinstance(end, Failed), request
        assert (end.kind, part in end.message) == (kind, True), end
