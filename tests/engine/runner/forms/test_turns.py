"""Tools, calls and results in the prompt, by what each family's template prints of them."""

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from engine.errors import BadSetting, TemplateError
from engine.protocol import ChatMessage, Render, Tool, ToolCall, Tools
from engine.runner.forms.tool_form import tool_form
from engine.runner.prompt import prompt_text
from engine.tokenizer import ChatTemplate

FOLDER = Path(__file__).parents[3] / "goldens"


def kept(name: str) -> dict[str, Any]:
    goldens: dict[str, Any] = json.loads(lzma.decompress((FOLDER / name).read_bytes()))
    return goldens


TEMPLATES = kept("chat_templates.json.xz")["templates"]
GOLDENS = kept("chat_rendered.json.xz")
GIVEN = GOLDENS["chats"]["tools"]
WEATHER = GIVEN["tools"][0]["function"]
TOOLS = Tools([Tool(WEATHER["name"], WEATHER["description"], json.dumps(WEATHER["parameters"]))])
MADE = GIVEN["messages"][2]["tool_calls"][0]
CALL = ToolCall(MADE["id"], MADE["function"]["name"], json.dumps(MADE["function"]["arguments"]))
CHAT = [
    ChatMessage("system", "You have tools."),
    ChatMessage("user", "Weather in Zürich?"),
    ChatMessage("assistant", "", calls=[CALL]),
    ChatMessage("tool", '{"rain": true}', call_id=CALL.id),
]
TODAY = GOLDENS["today"]


@pytest.fixture(autouse=True)
def a_machine_of_any_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.tokenizer.renderer.RENDER_LIMIT", 60.0)


def shown(template: str, chat: list[ChatMessage] = CHAT, tools: Tools = TOOLS) -> str:
    return prompt_text(ChatTemplate("file", template, "<s>", "</s>"), Render(1, chat, tools))


def test_prompts_with_tools_equal_those_of_transformers() -> None:
    """Of each template that prints tools, calls and results."""
    equal = []
    for name, kinds in GOLDENS["results"].items():
        form = tool_form(ChatTemplate("file", TEMPLATES[name], "<s>", "</s>"))
        if not (form.tools and form.arguments == "object" and form.results):
            continue
        if "text" in kinds["tools"]:
            assert shown(TODAY + TEMPLATES[name]) == kinds["tools"]["text"], name
            equal.append(name)
    assert len(equal) >= 50, equal


def test_every_template_is_shown_tools_calls_and_results() -> None:
    refused = []
    for name, template in TEMPLATES.items():
        try:
            text = shown(TODAY + template)
        except TemplateError:
            refused.append(name)
            continue
        for part in ("get_weather", "How far ahead", " <b>", "rain"):
            assert part in text, (name, part, text)
    assert refused == []


def test_a_template_that_knows_no_tools() -> None:
    """As Gemma's: no system part either, and a person and the model in turn."""
    text = shown(TEMPLATES["google-gemma-2-2b-it"])
    assert text.count("<start_of_turn>user") == 2
    assert '{"name": "get_weather", "arguments": {"city": "Zürich <b>", "days": 2}}' in text
    assert '{"name": "get_weather", "result": "{\\"rain\\": true}"}' in text
    assert text.index("You have tools.") < text.index("How far ahead") < text.index("Weather in")
    assert "object a line" in text
    one = shown(TEMPLATES["google-gemma-2-2b-it"], tools=Tools(TOOLS.known, several=False))
    assert "object a line" not in one
    none = shown(TEMPLATES["google-gemma-2-2b-it"], tools=Tools(TOOLS.known, "none"))
    assert "How far ahead" not in none


def test_what_was_thought_and_variables_reach_the_template() -> None:
    seen = "{% for m in messages %}{{ m.reasoning_content }}{% endfor %}|{{ mood }}|{{ tools }}"
    template = ChatTemplate("file", seen)
    chat = [ChatMessage("user", "?"), ChatMessage("assistant", "Yes.", thought="Hm.")]
    asked = Render(1, chat, template={"mood": [1, "x"]})
    assert prompt_text(template, asked) == "Hm.|[1, 'x']|"
    for name in ("messages", "add_generation_prompt", "tools"):
        with pytest.raises(BadSetting, match=name):
            prompt_text(template, Render(1, chat, template={name: 1}))


@pytest.mark.parametrize("given", ["[]", "{", "[" * 100_000, "NaN"])
def test_arguments_and_schemas_that_are_no_objects(given: str) -> None:
    chat = [
        ChatMessage("user", "?"),
        ChatMessage("assistant", "", calls=[ToolCall("1", "f", given)]),
    ]
    with pytest.raises(BadSetting, match="JSON object"):
        shown("{{ messages }}", chat, Tools())
    with pytest.raises(BadSetting, match="'f'"):
        shown("{{ tools }}", chat[:1], Tools([Tool("f", parameters=given)]))


def test_several_results_are_one_turn_where_results_are_texts() -> None:
    calls = [ToolCall(str(i), "f", "{}") for i in range(2)]
    results = [ChatMessage("tool", f"r{i}", call_id=str(i)) for i in range(2)]
    chat = [ChatMessage("user", "?"), ChatMessage("assistant", "So:", calls=calls), *results]
    text = shown(TEMPLATES["google-gemma-2-2b-it"], [*chat, ChatMessage("user", "And?")], Tools())
    assert text.count("<start_of_turn>user") == 2
    assert 'So:\n{"name": "f", "arguments": {}}\n{"name": "f", "arguments": {}}' in text
    assert '"r1"}\nAnd?' in text
