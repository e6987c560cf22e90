"""The messages: what the recipe says is enough for a new one, and none is without a handler."""

from collections.abc import Iterator

import pytest

from engine import protocol
from engine.protocol import Failed, Loaded, Order, Progress, Reply, Request, WireMessage, file
from engine.protocol.wire import decoder_of_replies, decoder_of_requests, encode, kinds
from engine.worker import RemoteError, Worker
from engine.worker.handlers import HANDLERS
from tests.engine.new_message import Counted, CountLetters

OURS = f"{protocol.__name__}."


@pytest.fixture
def worker(nothing_left: None) -> Iterator[Worker]:
    with Worker("tests.engine.new_message") as running:
        yield running


@pytest.mark.smoke
def test_a_new_message_is_a_request_a_reply_and_a_handler(worker: Worker) -> None:
    request = CountLetters(worker.new_id(), "abba")
    assert worker.get(request) == Counted(request.id, {"a": 2, "b": 2})
    *before, last = worker.run(CountLetters(worker.new_id(), "ab"))
    assert [type(reply) for reply in before] == [Progress, Progress]
    assert isinstance(last, Counted)


@pytest.mark.smoke
def test_a_new_message_fails_and_is_cancelled_as_all_others(worker: Worker) -> None:
    with pytest.raises(RemoteError, match="expected some text") as failed:
        worker.get(CountLetters(worker.new_id(), ""))
    assert failed.value.kind == "BadSetting"
    seen: list[Reply | None] = []
    endless = worker.run(CountLetters(worker.new_id(), "a…"), stop=lambda: len(seen) > 1)
    with pytest.raises(RemoteError, match="counting was cancelled"):
        seen.extend(endless)
    assert [type(reply) for reply in seen] == [Progress, Progress]
    assert worker.get(CountLetters(worker.new_id(), "a")).letters == {"a": 1}


@pytest.mark.smoke
def test_every_request_has_a_handler_and_an_end_that_can_be_sent() -> None:
    """Whoever has the disk answers requests about files, the pool of answers `Generate`."""
    requests = {kind for kind in kinds(Request) if kind.__module__.startswith(OURS)}
    about_files = {kind for kind in requests if kind.__module__ == file.__name__}
    assert about_files
    handled = {kind for kind in HANDLERS if kind.__module__.startswith(OURS)}  # not a test's
    assert requests - about_files == handled | {protocol.Generate}
    for kind in requests:
        assert issubclass(kind, Request)
        assert kind.ends in set(kinds(Reply))


@pytest.mark.smoke
def test_bytes_are_read_as_what_they_were() -> None:
    loaded = Loaded(7, "p", "n", "llama", "host", "host", 64, 64, 9, "file", ["note"])
    assert decoder_of_replies()(encode(loaded)) == loaded
    assert decoder_of_requests()(encode(protocol.Cancel(3))) == protocol.Cancel(3)
    with pytest.raises(ValueError, match="type"):
        decoder_of_requests()(encode(Failed(1, "k", "m")))


@pytest.mark.smoke
def test_names_on_the_wire_are_unique() -> None:
    names = [kind.__name__ for base in (Request, Order, Reply) for kind in kinds(base)]
    assert len(names) == len(set(names))
    assert all(issubclass(kind, WireMessage) for kind in kinds(WireMessage))
