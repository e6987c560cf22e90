"""Calls and thoughts as each model's own chat template writes them are read from there again."""

import json
import lzma
import re
from pathlib import Path
from typing import Any

import pytest

from engine.answers.forms import form_of
from engine.answers.passages import Call
from engine.answers.reader import read
from engine.errors import TemplateError
from engine.tokenizer.chat import ChatTemplate
from engine.tokenizer.vocab import _EOG_TEXTS

FOLDER = Path(__file__).parents[2] / "goldens"


def kept(name: str) -> dict[str, Any]:
    goldens: dict[str, Any] = json.loads(lzma.decompress((FOLDER / name).read_bytes()))
    return goldens


TEMPLATES = kept("chat_templates.json.xz")["templates"]
CHATS = kept("chat_rendered.json.xz")["chats"]
TOOLS = CHATS["tools"]["tools"]
CALL = CHATS["tools"]["messages"][2]["tool_calls"][0]
EXPECTED = Call("get_weather", CALL["function"]["arguments"])
QUESTION = {"role": "user", "content": "Weather in Zürich?"}
END = re.compile("|".join(map(re.escape, [*_EOG_TEXTS, "<|END_OF_TURN_TOKEN|>", "<|im_middle|>"])))
# Templates that write no calls themselves, or change a list in place, which no sandbox lets them.
NONE = {
    "CohereForAI-c4ai-command-r-plus-tool_use", "HuggingFaceTB-SmolLM3-3B", "Kimi-K2-Instruct",
    "Kimi-K2-Thinking", "LFM2-8B-A1B", "LFM2.5-Instruct", "google-gemma-2-2b-it",
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "ibm-granite-granite-3.3-2B-Instruct",
    "llama-cpp-rwkv-world", "meetkai-functionary-medium-v3.2", "microsoft-Phi-3.5-mini-instruct",
}  # fmt: skip
# Of models that are not run here, with a syntax of their own.
OTHERS = {
    "Apertus-8B-Instruct", "GigaChat3-10B-A1.8B", "GigaChat3.1-10B-A1.8B", "Kimi-K3", "MiniMax-M1",
    "MiniMax-M3", "deepseek-ai-DeepSeek-V3.2", "deepseek-ai-DeepSeek-V4",
    "deepseek-ai-DeepSeek-V4-Flash-0731", "fireworks-ai-llama-3-firefunction-v2",
    "meetkai-functionary-medium-v3.1", "openbmb-MiniCPM5-1B", "tencent-Hy3",
    "upstage-Solar-Open-100B",
}  # fmt: skip


@pytest.fixture(autouse=True)
def a_machine_of_any_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.tokenizer.renderer.RENDER_LIMIT", 60.0)


def written(name: str, **answer: object) -> str:
    """What the model is shown to have said. Raises `TemplateError`."""
    template = ChatTemplate("file", TEMPLATES[name], "<s>", "</s>")
    before = template.render([QUESTION], False, tools=TOOLS)
    after = template.render(
        [QUESTION, {"role": "assistant", "content": "", **answer}], False, tools=TOOLS
    )
    assert after.startswith(before)
    # The prompt ends with who speaks now, and perhaps a thought that is begun, or left out.
    prompt = template.render([QUESTION], tools=TOOLS).removeprefix(before)
    speaker = re.split(r"<think>|</think>|<\|START_(?!OF)", prompt)[0]
    said = after.removeprefix(before)
    if "<|channel|>" in TEMPLATES[name]:  # where <|end|> ends a part
        return said.removeprefix(speaker.rstrip()).split("<|return|>")[0]
    return END.split(said.removeprefix(speaker.rstrip()), maxsplit=1)[0]


@pytest.mark.parametrize("name", sorted(TEMPLATES.keys() - NONE - OTHERS))
def test_calls(name: str) -> None:
    said = written(name, tool_calls=[CALL])
    parts, _ = read(said, form_of(TEMPLATES[name]))
    calls = [part.call for part in parts if part.call is not None]
    assert [Call(call.name, call.arguments) for call in calls] == [EXPECTED], said


def test_thoughts() -> None:
    """Wherever a template shows what was thought, it is read as that."""
    read_back = []
    for name in sorted(TEMPLATES):
        try:
            said = written(name, content="Sunny.", reasoning_content="Let me see.")
        except (TemplateError, AssertionError):
            continue
        if "Let me see." not in said:
            continue
        parts, _ = read(said, form_of(TEMPLATES[name]))
        if [p.text for p in parts if p.kind == "thought"] == ["Let me see."]:
            assert parts[-1].text.startswith("Sunny."), said
            read_back.append(name)
        else:
            assert name in OTHERS or name == "Apriel-1.6-15b-Thinker-fixed", said
    assert len(read_back) >= 19, read_back
