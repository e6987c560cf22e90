"""Thought and answer, whole and at every moment of the writing."""

import pytest

from app.state.talk.reasoning import split_reasoning


@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        ("", "", ""),
        ("plain", "", "plain"),
        ("<think>\nhm\n</think>\n\nyes", "hm", "yes"),
        ("\n <think>a</think>b", "a", "b"),
        ("<think></think>b", "", "b"),
        ("<think>\n\n</think>\n\nb", "", "b"),
        ("hm</think>\nyes", "hm", "yes"),  # the template had written the first mark
        ("<think>never ends", "never ends", ""),
        ("a <think>b</think>", "a <think>b", ""),
        ("<thinking>a", "", "<thinking>a"),
        ("<think>a</think>b</think>c", "a", "b</think>c"),
        ("<", "", "<"),
        ("<think>a</thi", "a</thi", ""),
    ],
)
def test_whole(text: str, thought: str, answer: str) -> None:
    said = split_reasoning(text)
    assert (said.thought, said.answer, said.thinking) == (thought, answer, False)
    assert text[said.answer_start :] == answer


def test_while_it_is_written_no_mark_is_ever_seen() -> None:
    text = "<think>\nOne < two.\n</think>\n\nTwo > one."
    answers, thoughts = [], []
    for n in range(len(text) + 1):
        said = split_reasoning(text[:n], writing=n < len(text))
        assert "think" not in said.thought + said.answer
        assert "</" not in said.thought
        assert said.thinking == (7 <= n < text.index("</think>") + 8)
        answers.append(said.answer)
        thoughts.append(said.thought)
    for shown in (answers, thoughts):
        for before, after in zip(shown, shown[1:], strict=False):
            assert after.startswith(before.removesuffix("<").rstrip())  # never taken back
    assert (thoughts[-1], answers[-1]) == ("One < two.", "Two > one.")


def test_an_answer_that_begins_like_a_mark() -> None:
    assert split_reasoning("<th", writing=True).answer == ""
    assert split_reasoning("<th", writing=False).answer == "<th"
    assert split_reasoning("<the", writing=True).answer == "<the"
