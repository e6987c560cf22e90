"""Writes chat_rendered.json.xz: what transformers makes of four chats with each template.

    python -m tests.goldens.make_rendered_goldens

It needs transformers. The templates are those of chat_templates.json.xz, which
make_template_goldens.py takes from llama.cpp's source (MIT licence): models/templates/*.jinja, each
of the model it is named after. What a template refuses has the error's last words instead.
"""

import json
import lzma
from pathlib import Path
from typing import Any

from transformers.utils.chat_template_utils import render_jinja_template

HERE = Path(__file__).parent
TODAY = "{%- macro strftime_now(format) -%}26 Jul 2025{%- endmacro -%}"
"""Put before a template, so that none tells the day."""

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a place.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Where."},
                "days": {"type": "integer", "description": "How far ahead."},
            },
            "required": ["city"],
        },
    },
}
CALL = {
    "id": "abc123def",
    "type": "function",
    "function": {"name": "get_weather", "arguments": {"city": "Zürich <b>", "days": 2}},
}
CHATS: dict[str, dict[str, Any]] = {
    "system": {
        "messages": [
            {"role": "system", "content": "You are brief."},
            {"role": "user", "content": "What is 1 < 2 & \"3\"?"},
        ],
    },
    "turns": {
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello! \n"},
            {"role": "user", "content": " Größe?\n\nYes. "},
        ],
    },
    "tools": {
        "messages": [
            {"role": "system", "content": "You have tools."},
            {"role": "user", "content": "Weather in Zürich?"},
            {"role": "assistant", "content": "", "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "abc123def", "name": "get_weather",
             "content": "{\"rain\": true}"},
        ],
        "tools": [WEATHER],
    },
    "thinking": {
        "messages": [
            {"role": "user", "content": "1+1?"},
            {"role": "assistant", "content": "2", "reasoning_content": "One and one.\n"},
            {"role": "user", "content": "And 2+2?"},
        ],
        "enable_thinking": True,
    },
}  # fmt: skip


def rendered(template: str, chat: dict[str, Any]) -> dict[str, str]:
    messages, others = chat["messages"], {k: v for k, v in chat.items() if k != "messages"}
    try:
        texts, _ = render_jinja_template(
            [messages],
            chat_template=TODAY + template,
            add_generation_prompt=True,
            bos_token="<s>",
            eos_token="</s>",
            **others,
        )
    except Exception as error:  # noqa: BLE001  whatever a template raises
        return {"error": str(error)[-200:]}
    return {"text": texts[0]}


def main() -> None:
    known = json.loads(lzma.decompress((HERE / "chat_templates.json.xz").read_bytes()))
    results = {
        name: {kind: rendered(template, chat) for kind, chat in CHATS.items()}
        for name, template in known["templates"].items()
    }
    data = json.dumps({"today": TODAY, "chats": CHATS, "results": results}).encode()
    (HERE / "chat_rendered.json.xz").write_bytes(lzma.compress(data, preset=9))
    for name, kinds in results.items():
        for kind, result in kinds.items():
            if "error" in result:
                print(f"{name}, {kind}: {result['error']}")
    print(len(results), "templates,", len(data), "bytes")


if __name__ == "__main__":
    main()
