"""The worker and its handle: what it survives, what ends it, and that nothing is left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copy

import psutil
import pytest

from engine.errors import WorkerDied
from engine.protocol import (
    Cancel,
    ChatMessage,
    Devices,
    Failed,
    Finished,
    Generate,
    ListDevices,
    Load,
    Loaded,
    Perplexity,
    PerplexityDone,
    Piece,
    Progress,
    Render,
    Reply,
    Sampling,
    Unload,
    Unloaded,
)
from engine.settings import EngineOptions
from engine.worker import RemoteError, Worker
from engine.worker.handle import WENT_ON
from tests.program import REPEATS, ROOT, assert_ends

HOST = EngineOptions(device="host")
GREEDY = Sampling(temperature=0)
REPEATING = Sampling(temperature=0, frequency_penalty=-100)  # an answer without an end


@pytest.fixture
def loaded(worker: Worker, tiny_path: Path) -> Worker:
    """A worker with the tiny model on the host."""
    load(worker, tiny_path)
    return worker


@pytest.fixture
def mortal(nothing_left: None, tiny_path: Path) -> Iterator[Worker]:
    """Another, which the test may end."""
    with Worker() as running:
        load(running, tiny_path)
        yield running


def load(worker: Worker, path: Path, options: EngineOptions = HOST) -> Loaded:
    last = final(worker, Load(worker.new_id(), str(path), options))
    assert isinstance(last, Loaded)
    return last


def final(worker: Worker, request: object) -> Reply:
    *_, last = worker.run(request)  # type: ignore[arg-type]
    return last


def answer(worker: Worker, text: str = "the other thing", n: int = 12) -> tuple[str, Finished]:
    """A greedy answer of at most `n` tokens: its text, and how it ended."""
    request = Generate(worker.new_id(), prompt=text, sampling=GREEDY, max_tokens=n)
    *pieces, last = worker.run(request)
    assert isinstance(last, Finished)
    return "".join(p.text for p in pieces if isinstance(p, Piece)), last


def cancelled_after(worker: Worker, request: Generate, enough: Callable[[Reply], bool]) -> Finished:
    """The end of a request that is cancelled at the first message that is `enough`."""
    sent = False
    for reply in worker.run(request):
        if not sent and enough(reply):
            worker.send(Cancel(request.id))
            sent = True
    assert sent
    assert isinstance(reply, Finished)
    return reply


BAD_REQUESTS = {
    "temperature": Generate(1, prompt="a", sampling=Sampling(temperature=float("nan"))),
    "top_p": Generate(1, prompt="a", sampling=Sampling(top_p=2)),
    "seed": Generate(1, prompt="a", sampling=Sampling(seed=-1)),
    "prompt": Generate(1),
    "max_tokens": Generate(1, prompt="a", max_tokens=-1),
    "logprobs": Generate(1, prompt="a", logprobs=257),
    "do not fit": Generate(1, prompt="a b " * 1000, when_full="stop"),
    "1 tokens.*chunk": Perplexity(1, "a", n_ctx=64),
    "to the model's context": Perplexity(1, "a" * 9999, n_ctx=10**6),
    "ctx": Perplexity(1, "a" * 999, n_ctx=1),
    "top_k": Perplexity(1, "a" * 999, n_ctx=64, top_k=10**6),
    "nvidia:7": Load(1, "x.gguf", EngineOptions(device="nvidia:7")),
    "x.gguf": Load(1, "x.gguf", HOST),
}


def test_bad_requests_are_told_and_survived(worker: Worker, tiny_path: Path) -> None:
    for words, request in BAD_REQUESTS.items():
        path = load(worker, tiny_path).path
        if isinstance(request, Load) and request.options is not HOST:
            request = Load(1, path, request.options)
        with pytest.raises(RemoteError, match=words) as error:
            list(worker.run(request))
        assert "\n" not in str(error.value)
        assert error.value.kind != "Unexpected"
    load(worker, tiny_path)
    assert answer(worker)[1].stats.n_generated == 12


def test_what_contexts_can_be(worker: Worker, tiny_path: Path) -> None:
    for ctx in (0, -5):
        with pytest.raises(RemoteError, match=f"ctx: {ctx} is not valid"):
            load(worker, tiny_path, EngineOptions(device="host", ctx=ctx))
    assert load(worker, tiny_path).notes == []
    largest = load(worker, tiny_path, EngineOptions(device="host", ctx=2**62))
    assert largest.n_ctx == largest.n_ctx_train
    assert f"{largest.n_ctx} tokens" in largest.notes[0]
    assert load(worker, tiny_path, EngineOptions(device="host", ctx=1)).n_ctx == 1
    with pytest.raises(RemoteError, match="fit the context of 1;"):
        answer(worker)


def test_nothing_is_asked_of_no_model(worker: Worker) -> None:
    for request in (Generate(worker.new_id(), prompt="a"), Perplexity(worker.new_id(), "a")):
        with pytest.raises(RemoteError, match="open one first"):
            list(worker.run(request))
    assert isinstance(final(worker, Unload(worker.new_id())), Unloaded)
    assert isinstance(final(worker, ListDevices(worker.new_id())), Devices)


def test_models_come_and_go(worker: Worker, tiny_path: Path, tiny_base_path: Path) -> None:
    said = []
    for path, architecture, chat in (
        (tiny_path, "llama", "chatml"),
        (tiny_base_path, "gemma3", "none"),
        (tiny_path, "llama", "chatml"),
    ):
        model = load(worker, path)
        assert (model.architecture, model.chat, model.path) == (architecture, chat, str(path))
        said.append(answer(worker)[0])
    assert said[0] == said[2] != said[1]
    final(worker, Unload(worker.new_id()))
    with pytest.raises(RemoteError, match="open one first"):
        answer(worker)


def test_a_prefix_is_read_once_and_changes_nothing(loaded: Worker, tiny_path: Path) -> None:
    fresh, first = answer(loaded)
    again, second = answer(loaded)
    assert again == fresh
    assert first.stats.n_cached == 0
    assert second.stats.n_cached == second.stats.n_prompt - 1  # the last one gives the logits
    other, third = answer(loaded, "the other way")
    assert 0 < third.stats.n_cached < third.stats.n_prompt - 1
    load(loaded, tiny_path)
    assert answer(loaded, "the other way")[0] == other


@pytest.mark.device
@pytest.mark.model_file
def test_cancel_while_loading(worker: Worker, smollm2_path: Path) -> None:
    request = Load(worker.new_id(), str(smollm2_path), EngineOptions())
    worker.send(request)
    while not isinstance(worker.receive(30), Progress):
        pass
    worker.send(Cancel(request.id))
    while not isinstance(reply := worker.receive(30), Failed):
        assert not isinstance(reply, Loaded)
    assert reply.kind == "Cancelled"
    load(worker, smollm2_path, EngineOptions())


@pytest.mark.device
@pytest.mark.model_file
def test_cancel_while_reading_the_prompt(worker: Worker, smollm2_path: Path) -> None:
    load(worker, smollm2_path, EngineOptions())
    expected = answer(worker, "a b c")[0]
    long = Generate(worker.new_id(), prompt="a b c d e f g " * 250)
    end = cancelled_after(worker, long, lambda reply: isinstance(reply, Progress))
    assert end.reason == "cancelled"
    assert end.stats.n_generated == 0
    assert 0 < end.stats.n_context - end.stats.n_cached <= 2 * 512 < end.stats.n_prompt
    assert answer(worker, "a b c")[0] == expected


def test_cancel_while_answering(loaded: Worker) -> None:
    expected = answer(loaded)[0]
    for _ in range(2):
        request = Generate(loaded.new_id(), prompt=REPEATS, sampling=REPEATING)
        end = cancelled_after(loaded, request, lambda reply: isinstance(reply, Piece))
        assert end.reason == "cancelled"
        assert end.stats.n_generated > 0
        assert answer(loaded)[0] == expected


def test_cancel_of_what_is_not_running(loaded: Worker) -> None:
    loaded.send(Cancel(12345))
    assert answer(loaded)[1].reason == "length"


def test_requests_are_answered_in_turn(loaded: Worker) -> None:
    ids = [loaded.new_id() for _ in range(3)]
    for i in ids:
        loaded.send(Generate(i, prompt="a", sampling=GREEDY, max_tokens=2))
    ended: list[int] = []
    while len(ended) < 3:
        reply = loaded.receive(30)
        assert reply is not None
        if isinstance(reply, Finished):
            ended.append(reply.id)
    assert ended == ids
    assert loaded.receive(0.05) is None


@pytest.mark.parametrize("device", ["host", pytest.param(None, marks=pytest.mark.device)])
def test_a_file_that_shrinks_ends_the_worker_with_its_reason(
    mortal: Worker, tiny_path: Path, tmp_path: Path, device: str | None
) -> None:
    path = Path(copy(tiny_path, tmp_path / "shrinks.gguf"))
    load(mortal, path, EngineOptions(device=device))
    answer(mortal)
    with path.open("r+b") as file:
        file.truncate(4096)
    with pytest.raises(WorkerDied, match="file shrank") as death:
        answer(mortal, "something else entirely")
    assert death.value.exit_code == -signal.SIGBUS
    assert not mortal.alive


@pytest.mark.parametrize(
    ("number", "reason"),
    [(signal.SIGKILL, "memory ran out"), (signal.SIGTERM, "signal 15")],
)
def test_a_death_is_explained(mortal: Worker, number: signal.Signals, reason: str) -> None:
    mortal.send(Generate(mortal.new_id(), prompt=REPEATS, sampling=REPEATING))
    assert mortal.receive(30) is not None
    psutil.Process(mortal.pid).send_signal(number)
    with pytest.raises(WorkerDied, match=reason) as death:
        listen_forever(mortal)
    assert death.value.exit_code == -number
    for use in (lambda: mortal.send(Unload(1)), lambda: mortal.receive(1)):
        with pytest.raises(WorkerDied, match=reason):
            use()


def listen_forever(worker: Worker) -> None:
    while True:
        worker.receive(30)


def test_a_message_that_cannot_be_read_ends_it(mortal: Worker) -> None:
    mortal.pipe.send_bytes(b"\x00nonsense")
    with pytest.raises(WorkerDied, match="last words: .*msgspec"):
        mortal.receive(30)


def test_a_killed_worker_has_no_last_words(mortal: Worker) -> None:
    """Of an error that was answered long before, the reason of its end says nothing."""
    mortal.log.write(b"Traceback ...\nValueError: old and unrelated\n")
    psutil.Process(mortal.pid).kill()
    with pytest.raises(WorkerDied) as death:
        mortal.receive(30)
    assert "last words" not in str(death.value)


def test_errors_that_were_answered_are_no_last_words(mortal: Worker) -> None:
    mortal.log.write(b"ValueError: old and unrelated\n" + WENT_ON.encode() + b"\n")
    mortal.log.flush()
    psutil.Process(mortal.pid).terminate()
    with pytest.raises(WorkerDied) as death:
        mortal.receive(30)
    assert "last words" not in str(death.value)


def test_closing_ends_it_whatever_it_does(mortal: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """By itself: nobody waits until it is ended by force."""
    monkeypatch.setattr("engine.worker.handle.GRACE", 1e6)
    process = psutil.Process(mortal.pid)
    mortal.send(Generate(mortal.new_id(), prompt=REPEATS, sampling=REPEATING))
    assert mortal.receive(30) is not None
    mortal.close()
    mortal.close()
    assert not process.is_running()


def test_closing_ends_even_one_that_does_not_listen(mortal: Worker) -> None:
    process = psutil.Process(mortal.pid)
    process.suspend()
    mortal.close()
    assert not process.is_running()


ORPHANER = """
import sys
from engine.protocol import Generate, Load, Loaded, Sampling
from engine.settings import EngineOptions
from engine.worker import Worker

worker = Worker()
list(worker.run(Load(1, sys.argv[1], EngineOptions(device="host"))))
worker.send(Generate(2, prompt="zzzzzzzz", sampling=Sampling(0.0, frequency_penalty=-100)))
print(worker.pid, flush=True)
while True:
    reply = worker.receive()
"""


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_it_ends_with_the_program_that_started_it(tiny_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-c", ORPHANER, str(tiny_path)]
    program = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert program.stdout is not None
    worker = psutil.Process(int(program.stdout.readline()))
    assert "engine.worker" in worker.cmdline()
    time.sleep(0.2)
    program.send_signal(number)
    program.communicate()
    assert_ends(worker)


@pytest.mark.only_linux("groups of processes")
def test_ctrl_c_at_the_terminal_is_not_for_the_worker(loaded: Worker) -> None:
    assert os.getpgid(loaded.pid) != os.getpgid(0)


def test_perplexity_tells_how_far_it_is(loaded: Worker) -> None:
    request = Perplexity(loaded.new_id(), "the quick brown fox " * 20, n_ctx=64, top_k=3)
    *before, done = loaded.run(request)
    assert isinstance(done, PerplexityDone)
    progress = [p for p in before if isinstance(p, Progress)]
    assert [p.done for p in progress] == list(range(1, done.n_chunks + 1))
    assert progress[-1].estimate == done.perplexity
    assert len(done.tokens) == 4 * done.n_chunks * 64
    assert len(done.ids) == len(done.logp) == 4 * done.n_chunks * 31 * 3


def test_the_prompt_of_a_chat_can_be_asked_for(loaded: Worker) -> None:
    messages = [ChatMessage("system", "be brief"), ChatMessage("user", "hello")]
    rendered = loaded.get(Render(0, messages))
    assert "be brief" in rendered.text
    assert rendered.text.index("be brief") < rendered.text.index("hello")
    finished = loaded.get(Generate(0, messages=messages, max_tokens=1))
    assert rendered.n_tokens == finished.stats.n_prompt
    with pytest.raises(RemoteError, match="at least one message"):
        loaded.get(Render(0, []))
