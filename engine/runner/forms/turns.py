"""A chat, its tools and what was called, as a chat template takes them.

A template that prints no tools gets them in the system part, one that prints no calls or results
has them as JSON in the texts.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from engine.answers.forms import MESSAGE
from engine.answers.reader import read
from engine.errors import BadSetting
from engine.protocol import ChatMessage, Tool, ToolCall, Tools
from engine.runner.forms.tool_form import tool_form
from engine.tokenizer import ChatTemplate
from engine.tokenizer.chat import REASONING

Turn = dict[str, Any]
Content = Callable[[ChatMessage], str | list[Turn]]
"""What a message says, with its pictures as a template takes them."""

OURS = ("messages", "add_generation_prompt", "tools", "bos_token", "eos_token")
"""Variables of a template that nobody else may give."""

HOW = """You may call tools. They are functions, each with the JSON schema of its arguments:

{tools}

To call one, answer with nothing but a JSON object of its name and its arguments:
{{"name": "FUNCTION", "arguments": {{"ARGUMENT": VALUE}}}}
{several}Else answer as usual."""
SEVERAL = "To call several, write one such object a line.\n"


class RequestedChat(Protocol):
    """The chat in a request, as `Generate` and `Render` have it."""

    @property
    def messages(self) -> list[ChatMessage]: ...
    @property
    def tools(self) -> Tools: ...
    @property
    def template(self) -> dict[str, Any]: ...


def has_tools(chat: RequestedChat) -> bool:
    """True if tools may be called in the answer."""
    return bool(chat.tools.known) and chat.tools.choice != "none"


def variables_of(template: ChatTemplate, chat: RequestedChat) -> Turn:
    """Return the template's variables besides the messages. Raises `BadSetting` for tools that
    cannot be called, and for a variable that is not free.
    """
    for name in chat.template:
        if name in OURS:
            raise BadSetting("template", name, f"variables other than {', '.join(OURS)}")
    if not has_tools(chat) or not tool_form(template).tools:
        return chat.template
    return {**chat.template, "tools": [_known(tool) for tool in chat.tools.known]}


def turns_of(
    template: ChatTemplate, chat: RequestedChat, content: Content = lambda m: m.text
) -> list[Turn]:
    """The messages as the template takes them. Raises `BadSetting` for arguments that are no JSON
    object.
    """
    names = {call.id: call.name for message in chat.messages for call in message.calls}
    turns = [_turn(template, message, names, content) for message in chat.messages]
    if not tool_form(template).results:
        turns = _joined(turns)
    if has_tools(chat) and not tool_form(template).tools:
        turns = _with_system(turns, _tools_text(chat.tools))
    return turns


def _turn(
    template: ChatTemplate, message: ChatMessage, names: Mapping[str, str], content: Content
) -> Turn:
    turn: Turn = {"role": message.role, "content": content(message)}
    if message.role == "tool":
        return _result(template, turn, message.call_id, names.get(message.call_id, ""))
    if message.role != "assistant":
        return turn
    calls = [(call.id, call.name, arguments_of(call)) for call in message.calls]
    if MESSAGE in template.text and MESSAGE in message.text:
        # Such a template wants the parts of an answer apart.
        passages, _ = read(message.text)
        texts = {k: "".join(p.text for p in passages if p.kind == k) for k in ("thought", "answer")}
        turn["content"] = texts["answer"]
        turn |= {REASONING[0]: texts["thought"]} if texts["thought"] else {}
        read_calls = [passage.call for passage in passages if passage.call is not None]
        calls = [*((c.id, c.name, dict(c.arguments)) for c in read_calls), *calls]
    if message.thought:
        turn[REASONING[0]] = message.thought
    return _calling(template, turn, calls) if calls else turn


def _calling(
    template: ChatTemplate, turn: Turn, calls: Sequence[tuple[str, str, dict[str, object]]]
) -> Turn:
    kind = tool_form(template).arguments
    if not kind:
        made = [
            json.dumps({"name": name, "arguments": given}, ensure_ascii=False)
            for _, name, given in calls
        ]
        parts = [turn["content"], *made] if turn["content"] else made
        return turn if isinstance(turn["content"], list) else {**turn, "content": "\n".join(parts)}
    shaped: list[Turn] = []
    for number, name, given in calls:
        shown = given if kind == "object" else json.dumps(given, ensure_ascii=False)
        call: Turn = {"type": "function", "function": {"name": name, "arguments": shown}}
        shaped.append({"id": number, **call} if number else call)
    return {**turn, "tool_calls": shaped}


def _result(template: ChatTemplate, turn: Turn, call_id: str, name: str) -> Turn:
    if tool_form(template).results:
        named = {"name": name} if name else {}
        return {**turn, "tool_call_id": call_id, **named}
    content = turn["content"]
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    text = "".join(part["text"] for part in parts if part.get("type") == "text")
    encoded = json.dumps({"name": name, "result": text}, ensure_ascii=False)
    shown = [part for part in parts if part.get("type") != "text"]
    return {
        "role": "user",
        "content": [*shown, {"type": "text", "text": encoded}] if shown else encoded,
    }


def arguments_of(call: ToolCall) -> dict[str, object]:
    """Parse the arguments of a call. Raises `BadSetting` for what is no JSON object."""
    try:
        value = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise BadSetting("arguments", call.arguments, "a JSON object")
    return value


def parameters_of(tool: Tool) -> dict[str, object]:
    """The JSON schema of a tool's arguments. Raises `BadSetting` for what is no JSON object."""
    try:
        value = json.loads(tool.parameters or "{}")
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        expected = f"the JSON schema of {tool.name!r}'s arguments, an object"
        raise BadSetting("parameters", tool.parameters, expected)
    return value or {"type": "object", "properties": {}}


def _known(tool: Tool) -> Turn:
    described = {"description": tool.description} if tool.description else {}
    function = {"name": tool.name, **described, "parameters": parameters_of(tool)}
    return {"type": "function", "function": function}


def _tools_text(tools: Tools) -> str:
    known = "\n".join(
        json.dumps(_known(tool)["function"], ensure_ascii=False) for tool in tools.known
    )
    return HOW.format(tools=known, several=SEVERAL if tools.several else "")


def _with_system(turns: Sequence[Turn], text: str) -> list[Turn]:
    first = turns[0] if turns else {}
    if first.get("role") != "system":
        return [{"role": "system", "content": text}, *turns]
    content = first["content"]
    whole = (
        f"{content}\n\n{text}"
        if isinstance(content, str)
        else [*content, {"type": "text", "text": text}]
    )
    return [{**first, "content": whole}, *turns[1:]]


def _joined(turns: Sequence[Turn]) -> list[Turn]:
    """Texts of a person that follow each other as one: results came between turns."""
    joined: list[Turn] = []
    for turn in turns:
        last = joined[-1] if joined else {}
        texts = (last.get("content"), turn["content"])
        if turn["role"] == last.get("role") == "user" and all(isinstance(t, str) for t in texts):
            joined[-1] = {**last, "content": "\n".join(map(str, texts))}
        else:
            joined.append(turn)
    return joined
