"""Answers whose thought the prompt begins, and answers in frames."""

from collections.abc import Iterator

import gguf
import pytest

from engine.protocol import ChatMessage, Generate, Piece, Render, Sampling
from engine.runner.api import Model, load
from engine.runner.generate import generate
from engine.runner.prompt import prompt_text
from engine.runner.sequence import Sequenced
from engine.tokenizer import ChatTemplate
from tests.goldens.tiny import write_tiny

CHAT = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{{ '<think>\\n' }}"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    chat = {"tokenizer.chat_template": (CHAT, gguf.GGUFValueType.STRING)}
    path = tmp_path_factory.mktemp("thinking") / "tiny.gguf"
    with load(write_tiny(path, "llama", metadata=chat), device="host") as model:
        yield model


def answer(model: Model, **changes: object) -> tuple[list[str], list[int], int]:
    """The pieces' texts, the ids, and the prompt's length."""
    asked = {"messages": [ChatMessage("user", "Hi")], "sampling": Sampling(temperature=0)}
    request = Generate(1, **{**asked, "max_tokens": 6, **changes})
    events = [*generate(model.loaded, Sequenced(model.loaded.stepper), request, lambda: False)]
    pieces = [event for event in events if isinstance(event, Piece)]
    ids = [info.token for piece in pieces for info in piece.tokens]
    return [piece.text for piece in pieces], ids, events[-1].stats.n_prompt


def test_what_the_prompt_begins_belongs_to_the_answer(model: Model) -> None:
    texts, ids, n_prompt = answer(model)
    assert texts[0] == "<think>\n"
    assert len(ids) == 6
    plain, same, length = answer(model, messages=[], prompt="user: Hi\n<think>\n")
    assert (["<think>\n", *plain], ids, n_prompt) == (texts, same, length)


def test_it_is_not_there_twice_when_an_answer_goes_on(model: Model) -> None:
    texts, ids, n_prompt = answer(model)
    text = "".join(texts)
    begun = "<think>\n" + model.loaded.tokenizer.decode(ids[:3])
    by_text = answer(model, prefix=begun, max_tokens=3)
    by_ids = answer(model, prefix=begun, prefix_tokens=ids[:3], max_tokens=3)
    assert by_ids[2] == n_prompt + 3
    assert ("".join(by_ids[0]), by_ids[1]) == (text.removeprefix(begun), ids[3:])
    old = model.loaded.tokenizer.decode(ids[:3])
    plain = answer(model, messages=[], prompt="user: Hi\n<think>\n" + old, max_tokens=3)
    assert by_text == plain
    # Answers from before, and branches from the first token.
    assert answer(model, prefix=old, prefix_tokens=ids[:3], max_tokens=3) == by_ids
    branch = answer(model, prefix_tokens=ids[:3], max_tokens=3)
    assert "".join(branch[0]) == text


FRAMED = (
    "{% for m in messages %}[{{ m.role }}|{{ m.reasoning_content }}|{{ m.content }}"
    "{% if m.tool_calls %}|{{ m.tool_calls[0].function|tojson }}{% endif %}]{% endfor %}"
)


def test_frames_are_taken_apart_for_templates_that_make_them() -> None:
    said = "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>final<|message|>Hi"
    call = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}"
    chat = [ChatMessage("user", "?"), *(ChatMessage("assistant", text) for text in (said, call))]
    made = prompt_text(ChatTemplate("file", FRAMED + "{# <|message|> #}"), Render(1, chat))
    assert made == '[user||?][assistant|Hm|Hi][assistant|||{"name": "f", "arguments": {}}]'
    assert said in prompt_text(ChatTemplate("file", FRAMED), Render(1, chat))
