"""A worker keeps what it has read of chats: the next one reads only what is new."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest
from gguf import GGUFValueType

from engine import prefixes
from engine.protocol import Finished, ForgetChat, Load, Piece, SavePrefixes
from engine.settings import EngineOptions
from engine.worker import Worker
from tests.engine.runner.answering.many import asked, ids
from tests.goldens.tiny import write_tiny

PROMPT = ids(17, 700)
OPTIONS = EngineOptions(device="host", ctx=1024, kv="f32", kept_chats=1, cache_ram=64)
CHAT = "7"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTAWAY_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return long_tiny(tmp_path / "m.gguf", "llama")


def long_tiny(path: Path, name: str) -> Path:
    context = {f"{name}.context_length": (1024, GGUFValueType.UINT32)}
    return write_tiny(path, name, metadata=context)


@contextmanager
def opened(path: Path, options: EngineOptions = OPTIONS) -> Iterator[Worker]:
    with Worker() as worker:
        worker.get(Load(worker.new_id(), str(path), options))
        yield worker


def answered(
    worker: Worker, prompt: list[int], chat: str | None = CHAT, n: int = 5
) -> tuple[list[int], Finished]:
    request = asked(worker.new_id(), prompt, n, chat=chat)
    *pieces, last = worker.run(request)
    assert isinstance(last, Finished)
    return [one.token for p in pieces if isinstance(p, Piece) for one in p.tokens], last


def tails() -> list[Path]:
    return list(prefixes.folder().glob(f"*{prefixes.TAILS}"))


@pytest.mark.parametrize("name", [pytest.param("llama", marks=pytest.mark.full), "gemma3"])
def test_after_a_restart_a_chat_goes_on_where_it_was(tmp_path: Path, name: str) -> None:
    """With windows, too; it is written while nothing is asked, and what is new alone is read."""
    path = long_tiny(tmp_path / "m.gguf", name)
    with opened(path) as worker:
        said, end = answered(worker, PROMPT)
        assert end.stats.n_cached == 0
        end_of_wait = monotonic() + 60
        while not tails():
            assert monotonic() < end_of_wait
            sleep(0.02)
    following = [*PROMPT, *said, *ids(3, 30)]
    with opened(path, EngineOptions(device="host", ctx=1024, kv="f32")) as worker:
        expected, end = answered(worker, following)
        assert end.stats.n_cached == 0
    with opened(path) as worker:
        found, end = answered(worker, following)
        assert end.stats.n_cached == len(PROMPT) + len(said) - 1
        assert found == expected
        assert worker.get(ForgetChat(worker.new_id(), CHAT))
        assert not list(prefixes.folder().iterdir())
        assert worker.get(SavePrefixes(worker.new_id())).problem == ""
        assert not list(prefixes.folder().iterdir())  # nothing more is kept of it


def test_what_is_private_is_not_written(path: Path) -> None:
    with opened(path) as worker:
        answered(worker, PROMPT, None)
        worker.get(SavePrefixes(worker.new_id()))
        assert not prefixes.folder().exists()
        answered(worker, PROMPT)
        worker.get(SavePrefixes(worker.new_id()))
        assert tails()
    without = EngineOptions(device="host", ctx=1024, kv="f32")
    prefixes.delete_prefixes()
    with opened(path, without) as worker:
        answered(worker, PROMPT)
        worker.get(SavePrefixes(worker.new_id()))
        assert not list(prefixes.folder().iterdir())


def test_what_was_read_is_written_when_the_app_goes(path: Path) -> None:
    with opened(path) as worker:
        answered(worker, PROMPT)
    assert tails()


def test_what_leaves_the_context_is_in_ram(path: Path) -> None:
    """Two chats in turn in one sequence."""
    other = ids(18, 700)
    in_ram = EngineOptions(device="host", ctx=1024, kv="f32", cache_ram=64)
    with opened(path, in_ram) as worker:
        first, second = answered(worker, PROMPT)[0], answered(worker, other)[0]
        for prompt, said in ((PROMPT, first), (other, second)):
            longer = [*prompt, *said, 9]
            found, end = answered(worker, longer)
            assert end.stats.n_cached == len(longer) - 2
            assert found


@pytest.mark.parametrize("trials", [1, pytest.param(100, marks=pytest.mark.full)])
def test_a_worker_killed_while_it_writes_leaves_nothing_wrong(path: Path, trials: int) -> None:
    """Whatever is there is restored right, or not at all."""
    moments = random.Random(4)
    for trial in range(trials):
        prompt = ids(100 + trial, 800)
        with opened(path) as worker:
            said, _ = answered(worker, prompt)
            worker.send(SavePrefixes(worker.new_id()))
            sleep(moments.random() * 0.02)
            worker.kill()
        with opened(path, EngineOptions(device="host", ctx=1024, kv="f32")) as worker:
            expected, _ = answered(worker, [*prompt, *said, 8])
        with opened(path) as worker:
            found, end = answered(worker, [*prompt, *said, 8])
            assert found == expected
            assert end.stats.n_cached % 256 == 0 or end.stats.n_cached == len(prompt) + 4
            worker.get(SavePrefixes(worker.new_id()))
            assert not list(prefixes.folder().glob("*.part"))
