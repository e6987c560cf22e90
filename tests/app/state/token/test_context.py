"""Where the items of a context stand in the chat, against words counted by hand."""

import re
from dataclasses import replace

import numpy as np
import pytest

from app.state.talk.message import Message
from app.state.talk.tokens import Tokens
from app.state.token.context import ContextMap, Part, WrittenAnswer
from engine.protocol import ContextItems, PlacedRows, TokenInfo

TOKEN = re.compile(r"<[^<>]+>|\n| ?[^\s<]+| ")


def items(text: str, rows: list[PlacedRows] | None = None) -> ContextItems:
    pieces = TOKEN.findall(text)
    assert "".join(pieces) == text
    ends = np.cumsum([len(piece) for piece in pieces]).astype("<i4")
    return ContextItems(
        text, np.arange(len(pieces), dtype="<i4").tobytes(), ends.tobytes(), rows or []
    )


def question(number: int, text: str) -> Message:
    return Message(number, 1, None, "user", text)


def said(context: ContextMap, messages: list[Message]) -> dict[int, list[str]]:
    """Of each message the words that its items stand for."""
    texts = {message.id: message.text for message in messages}
    found: dict[int, list[str]] = {message.id: [] for message in messages}
    for item in range(len(context)):
        part = context.part(item)
        if part is not None:
            found[part.message].append(texts[part.message][part.first : part.last])
    return found


def test_words_of_messages_are_found_between_those_of_the_template() -> None:
    path = [question(1, "user"), Message(2, 1, 1, "assistant", "I am user 2"), question(3, "user")]
    text = "<s>user\nuser<e>\n<s>assistant\nI am user 2<e>\n<s>user\nuser<e>\n<s>assistant\n"
    context = ContextMap(items(text), path)
    assert said(context, path) == {1: ["user"], 2: ["I", " am", " user", " 2"], 3: ["user"]}
    assert [context.text(item) for item in context.items_of(2)] == ["I", " am", " user", " 2"]
    assert [
        context.text(n) for n in range(len(context)) if not context.of_chat(len(context))[n]
    ] == [
        *("<s>", "user", "\n", "<e>", "\n", "<s>", "assistant", "\n", "<e>", "\n", "<s>", "user"),
        *("\n", "<e>", "\n", "<s>", "assistant", "\n"),
    ]


def test_a_letter_of_the_templates_words_is_no_message() -> None:
    path = [question(1, "s")]
    context = ContextMap(items("User: s\nAssistant:"), path)
    assert said(context, path) == {1: ["s"]}
    assert context.items_of(1) == range(1, 2)


def test_a_system_prompt_that_repeats_the_question_is_passed_over() -> None:
    path = [question(1, "Say yes")]
    text = "<s>system\nSay yes<e>\n<s>user\nSay yes<e>\n"
    context = ContextMap(items(text), path, system=" Say yes ")
    assert said(context, path) == {1: ["Say", " yes"]}
    assert context.items_of(1) == range(10, 12)


def test_what_the_template_trims_or_leaves_out() -> None:
    thought = Message(2, 1, 1, "assistant", "<think>hm hm</think>\n\nYes it is")
    path = [question(1, "  Is it? \n"), thought, question(3, "gone"), question(4, "Why")]
    text = "<s>user\nIs it?<e>\n<s>assistant\nYes it is<e>\n<s>user\nWhy<e>\n"
    context = ContextMap(items(text), path)
    assert said(context, path) == {1: ["Is", " it?"], 2: ["Yes", " it", " is"], 3: [], 4: ["Why"]}
    assert context.items_of(3) == range(0)


def test_an_item_that_lies_over_a_messages_edge_stands_for_what_is_inside() -> None:
    path = [question(1, "one two")]
    context = ContextMap(items("[INST] one two [/INST]"), path)
    assert said(context, path) == {1: ["one", " two"]}


def test_an_answers_items_are_its_tokens() -> None:
    tokens = Tokens()
    for word, end in (("Hé", 2), ("llo", 5), (" you", 9)):
        tokens.append([TokenInfo(end, None, word)], end)
    path, answered = [question(1, "Hi")], Message(2, 1, 1, "assistant", "Héllo you")
    prompt = items("<s>user\nHi<e>\n<s>assistant\n")
    count = len(prompt.ids) // 4
    ends = np.concatenate((np.frombuffer(prompt.ends, "<i4"), [30, 33]))
    told = ContextItems(
        prompt.text + "Héllo", bytes(4 * (count + 2)), ends.astype("<i4").tobytes(), []
    )
    context = ContextMap(told, path, "", WrittenAnswer(2, tokens, count))
    assert said(context, [*path, answered]) == {1: ["Hi"], 2: ["Hé", "llo"]}
    assert [context.text(item) for item in context.items_of(2)] == ["Hé", "llo", " you"]
    assert context.part(count + 2) == Part(2, 5, 9)  # written since
    assert context.of_chat(count + 3).tolist()[count:] == [True] * 3
    assert context.part(count + 3) is None


def test_rows_of_pictures_are_no_words() -> None:
    rows = [PlacedRows(1, "d", 0, 4, 3, 3)]
    path = [question(1, "What is it")]
    context = ContextMap(items("<s>user\n<i><i><i>What is it<e>", rows), path)
    assert said(context, path) == {1: ["What", " is", " it"]}
    assert context.row_at(2) is None
    assert context.row_at(4) == (rows[0], 5)
    assert context.part(4) is None
    assert context.text(4) == ""
    assert context.of_chat(len(context)).tolist() == [False] * 3 + [True] * 6 + [False]


@pytest.mark.parametrize("text", ["", "   "])
def test_an_empty_message_has_no_items(text: str) -> None:
    path = [question(1, text)]
    context = ContextMap(items("<s>user\n<e>\n"), path)
    assert context.items_of(1) == range(0)
    assert said(context, [replace(path[0])]) == {1: []}
