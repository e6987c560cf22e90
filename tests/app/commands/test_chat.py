"""The chat on a terminal, key by key, on a model that takes a millisecond a token."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.program import ENDLESS, REPEATS, Terminal, engine_of

pytestmark = pytest.mark.usefixtures("nothing_left")
CTRL_C, CTRL_D = "\x03", "\x04"
SHORT = ("--max-tokens", "4", "--seed", "1")


@contextmanager
def chatting(path: Path, *words: str) -> Iterator[Terminal]:
    """A chat at its first prompt."""
    with Terminal("run", str(path), "--device", "host", *words) as terminal:
        terminal.expect("tiny on host")
        terminal.expect("> ")
        yield terminal


@pytest.fixture
def chat(request: pytest.FixtureRequest, tiny_path: Path) -> Iterator[Terminal]:
    """A chat of its own; parametrised with further options."""
    with chatting(tiny_path, *getattr(request, "param", SHORT)) as terminal:
        yield terminal


@pytest.fixture(scope="module")
def shared(tiny_path: Path) -> Iterator[Terminal]:
    """A chat for what leaves it alive."""
    with chatting(tiny_path, *SHORT) as terminal:
        yield terminal


@pytest.fixture
def anew(shared: Terminal) -> Terminal:
    """That chat, with nothing said."""
    for words in ("/system", "/reset"):
        shared.send(f"{words}\n")
        shared.expect("> ")
    return shared


endless = pytest.mark.parametrize("chat", [ENDLESS], indirect=True)


def say(chat: Terminal, text: str) -> str:
    """Says it; the line of statistics, once there is a prompt again."""
    chat.send(f"{text}\n")
    chat.expect(" tokens")
    line = chat.expect("\n")
    chat.expect("> ")
    return line


def test_a_line_half_written_is_dropped(chat: Terminal) -> None:
    chat.send("/exit")
    chat.expect("/exit")
    chat.settle()
    chat.send(CTRL_C)
    chat.expect("> ")
    chat.send("/help\n")
    assert "/regen" in chat.expect("> ")
    chat.settle()
    chat.send(CTRL_D)
    assert chat.wait() == 0


def test_the_history_is_sent_and_kept_in_the_cache(chat: Terminal) -> None:
    first = say(chat, "one")
    assert "(0 kept)" in first
    assert "seed 1" in first
    assert "token limit" in first
    second = say(chat, "two")
    assert "(0 kept)" not in second
    n_first, n_second = (int(s.split("prompt ")[1].split()[0]) for s in (first, second))
    assert n_second > 2 * n_first
    chat.send("/reset\n")
    chat.expect("> ")
    assert f"prompt {n_first} " in say(chat, "one")
    chat.send("/exit\n")
    assert chat.wait() == 0


def test_regen_draws_anew_from_the_same_prompt(anew: Terminal) -> None:
    anew.send("/regen\n")
    anew.expect("the chat is empty")
    first = say(anew, "one")
    again = say(anew, "/regen")
    assert "seed 1 " not in again
    assert first.split("(")[0].split("prompt")[1] == again.split("(")[0].split("prompt")[1]


def test_a_system_message(anew: Terminal) -> None:
    plain = say(anew, "one")
    anew.send("/system abcdefgh\n")
    anew.expect("> ")
    longer = say(anew, "/regen")
    anew.send("/system\n")
    anew.expect("> ")
    back = say(anew, "/regen")
    sizes = [int(s.split("prompt ")[1].split()[0]) for s in (plain, longer, back)]
    assert sizes[0] == sizes[2] < sizes[1]


def test_what_is_no_command(anew: Terminal) -> None:
    anew.send("/nonsense\n")
    anew.expect("unknown command /nonsense")
    assert "prompt" in say(anew, "/etc/hosts is a file")


def test_an_empty_line_says_nothing(anew: Terminal) -> None:
    alone = say(anew, "one").split("prompt ")[1].split()[0]
    anew.send("/reset\n")
    anew.expect("> ")
    anew.send("\n")
    anew.expect("> ")
    assert f"prompt {alone} " in say(anew, "one")


@endless
def test_ctrl_c_stops_the_answer_and_the_chat_goes_on(chat: Terminal) -> None:
    for _ in range(2):
        chat.send(f"{REPEATS}\n")
        chat.expect("\n")
        chat.expect_more()
        chat.send(CTRL_C)
        chat.expect("stopped")
        chat.expect("> ")
    chat.settle()
    chat.send(CTRL_C)
    assert chat.wait() == 0


@endless
def test_ctrl_c_twice_leaves_even_an_engine_that_does_not_answer(chat: Terminal) -> None:
    engine = engine_of(chat.process.pid)
    chat.send(f"{REPEATS}\n")
    chat.expect("\n")
    chat.expect_more()
    engine.suspend()
    chat.settle()  # it waits for more of the answer
    chat.send(CTRL_C)
    chat.settle()
    assert chat.process.poll() is None
    chat.send(CTRL_C)
    assert chat.wait() == 130


@endless
def test_the_engine_dies_and_the_chat_goes_on(chat: Terminal) -> None:
    chat.send(f"{REPEATS}\n")
    chat.expect("\n")
    engine_of(chat.process.pid).kill()
    assert "memory ran out" in chat.expect("restarting it")
    chat.expect("/regen")
    chat.expect("> ")
    chat.send("/regen\n")
    chat.expect("\n")
    chat.expect_more()
    chat.send(CTRL_C)
    chat.expect("stopped")


def test_the_engine_dies_between_answers(chat: Terminal) -> None:
    say(chat, "one")
    engine_of(chat.process.pid).kill()
    chat.send("two\n")
    chat.expect("restarting it")
    chat.expect("> ")
    assert "(0 kept)" in say(chat, "/regen")


@pytest.mark.parametrize("chat", [("--ctx", "64", "--when-full", "stop", *SHORT)], indirect=True)
def test_an_error_does_not_end_the_chat(chat: Terminal) -> None:
    chat.send("a " * 100 + "\n")
    chat.expect("error: ")
    chat.expect("do not fit the context of 64")
    assert "seed" in say(chat, "one")
