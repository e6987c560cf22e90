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


ARGUMENTS = '{"city": "Zürich", "note": "```"}'
CALL = f'<tool_call>\n{{"name": "get_weather", "arguments": {ARGUMENTS}}}\n</tool_call>'


def test_calls_are_told_in_words() -> None:
    text = f"<think>Hm</think>\nSure.\n{CALL}\n{CALL} Done."
    said = split_reasoning(text)
    call = '**Calls** `get_weather`\n```json\n{\n "city": "Zürich",\n "note": "```"\n}\n```'
    assert said.answer == f"Sure.\n\n{call}\n\n{call}\n\nDone."
    malformed = "<tool_call>oops no</tool_call>"
    assert split_reasoning(malformed).answer == malformed
    begun = split_reasoning(f"Sure.{CALL[:-20]}", writing=True)
    assert begun.answer == "Sure.\n\n**Calls** a tool …"
    bare = '<tool_call>{"name": "now"}</tool_call>'
    assert split_reasoning(bare).answer == "**Calls** `now`"


def test_where_what_is_shown_stands_in_the_answer() -> None:
    text = f"<think>Hm</think>\nSure.\n{CALL} Done."
    said = split_reasoning(text)
    for word in ("Sure", "Done"):
        shown, there = said.answer.index(word), text.index(word)
        assert said.answer_part.there(shown) == there
        assert said.answer_part.here(there) == shown
        assert said.answer_part.here(there + 4) == shown + 4
    # All of a call is one place.
    inside = said.answer.index("get_weather")
    assert said.answer_part.there(inside) == text.index("<tool_call>")
    assert said.answer_part.here(text.index("get_weather")) == said.answer.index("**Calls**")
    assert said.thought_part.there(0) == text.index("Hm")
    assert said.thought_part.here(text.index("Hm") + 1) == 1


def test_channels() -> None:
    text = (
        "<|channel|>analysis<|message|>One.<|end|><|start|>assistant<|channel|>analysis<|message|>Two."
        "<|end|><|start|>assistant<|channel|>final<|message|>Hi"
    )
    said = split_reasoning(text)
    assert (said.thought, said.answer) == ("One.\n\nTwo.", "Hi")
    assert said.thought_part.there(said.thought.index("Two")) == text.index("Two")
    assert split_reasoning(text[:40], writing=True).thinking
