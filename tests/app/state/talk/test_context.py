"""Shares of the context against counts written down by hand."""

from app.state.talk.context import context_use
from app.state.talk.message import Message
from engine.protocol import Stats


def question(text: str) -> Message:
    return Message(0, 1, None, "user", text)


def answer(
    n_tokens: int, n_prompt: int, n_generated: int | None = None, shifts: int = 0
) -> Message:
    generated = n_tokens if n_generated is None else n_generated
    stats = Stats(n_prompt, 0, generated, 0, 0, 0, 0, 7, 0, n_shifts=shifts)
    return Message(0, 1, None, "assistant", "x", stats=stats, n_tokens=n_tokens)


def tokens(*path: Message, system: str = "") -> list[int]:
    return [share.tokens for share in context_use(path, system, 4096).shares]


def test_counted() -> None:
    path = question("a"), answer(10, 30), question("b"), answer(5, 52)
    assert tokens(*path) == [30, 10, 12, 5]
    use = context_use(path, "", 4096)
    assert (use.used, use.counted, use.n_ctx) == (57, True, 4096)
    assert [share.row for share in use.shares] == [0, 1, 2, 3]


def test_the_system_prompt_shares_the_first_question() -> None:
    assert tokens(question("b" * 10), answer(5, 40), system="a" * 30) == [30, 10, 5]
    use = context_use([question("b")], "a" * 8, 100)
    assert [(s.row, s.tokens, s.counted) for s in use.shares] == [(None, 2, False), (0, 1, False)]


def test_a_question_without_an_answer_is_estimated() -> None:
    path = question("a"), answer(10, 30), question("b" * 41)
    assert tokens(*path) == [30, 10, 11]
    assert not context_use(path, "", 0).counted


def test_an_answer_that_failed_lies_between() -> None:
    failed = Message(0, 1, None, "assistant", "")
    assert sum(tokens(question("a"), failed, question("b"), answer(4, 60))) == 64


def test_a_continued_answer_counts_once() -> None:
    assert tokens(question("a"), answer(15, 40, n_generated=5)) == [30, 15]


def test_after_a_shift_the_prompt_says_nothing() -> None:
    use = context_use([question("a" * 40), answer(100, 30, shifts=1)], "", 64)
    assert [share.tokens for share in use.shares] == [10, 100]


def test_empty() -> None:
    assert tokens() == []
    assert context_use([], "", 0).used == 0
