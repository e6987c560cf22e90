"""A question as the body of `/chat/completions`."""

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from app.remote.connection import ServerKind
from engine.errors import NotSupported
from engine.protocol import (
    AnswerForm,
    ChatMessage,
    Generate,
    Grammar,
    JsonObject,
    JsonSchema,
    PicturePart,
    Regex,
    TextPart,
)

THOUGHT_BEGINS, THOUGHT_ENDS = "<think>", "</think>"
GOES_ON: tuple[ServerKind, ...] = ("cutaway", "llama-server", "vllm", "sglang", "ollama")
"""Servers that go on with an answer that exists in part, which they are given as last message."""
REPEATS: tuple[ServerKind, ...] = ("llama-server",)
"""Servers that repeat that part before the new text."""
# What a server may not know: left out where it says so. The order is that of their mention.
OPTIONAL = (
    *("top_logprobs", "logprobs", "stream_options", "top_k", "min_p", "repeat_penalty"),
    *("repeat_last_n", "seed", "frequency_penalty", "presence_penalty", "top_p", "temperature"),
    *("parallel_tool_calls", "chat_template_kwargs", "return_progress"),
)
BYTES = {b"\x89PNG": "image/png", b"\xff\xd8": "image/jpeg", b"GIF8": "image/gif"}
WEBP = "image/webp"


def body(
    model: str, kind: ServerKind, request: Generate, seed: int, pictures: Mapping[str, bytes]
) -> dict[str, Any]:
    """Return the body of the request. `pictures` are files by digest. Raises NotSupported for what
    only an engine on this machine does.
    """
    _check(request, kind)
    sampling = request.sampling
    messages = [_message(message, pictures) for message in request.messages]
    fields: dict[str, Any] = {
        "model": model,
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "seed": seed,
    }
    if sampling.repeat_penalty != 1.0:
        fields["repeat_penalty"] = sampling.repeat_penalty
        fields["repeat_last_n"] = sampling.penalty_last_n
        if kind in ("vllm", "sglang"):
            fields["repetition_penalty"] = fields.pop("repeat_penalty")
    for name in ("frequency_penalty", "presence_penalty"):
        if getattr(sampling, name):
            fields[name] = getattr(sampling, name)
    if request.max_tokens is not None:
        fields["max_tokens"] = request.max_tokens
    if request.stop:
        fields["stop"] = request.stop
    if request.logprobs:
        fields |= {"logprobs": True, "top_logprobs": min(request.logprobs, 20)}
    if request.prefix:
        messages.append({"role": "assistant", "content": request.prefix})
        if kind in ("vllm", "sglang"):
            fields |= {"continue_final_message": True, "add_generation_prompt": False}
    if request.template:
        fields["chat_template_kwargs"] = request.template
    if request.bias:
        fields["logit_bias"] = {str(token): value for token, value in request.bias.items()}
    if request.form is not None:
        fields |= _form(request.form, kind)
    return fields | _tools(request)


def without_thought(text: str) -> str:
    """An answer without the thought that it begins with: templates leave earlier ones out."""
    begins, (_, ends, rest) = text.lstrip(), text.partition(THOUGHT_ENDS)
    return rest.lstrip("\n") if begins.startswith(THOUGHT_BEGINS) and ends else text


def named(fields: Mapping[str, Any], text: str) -> list[str]:
    """The fields, among those that can be left out, that a refusal names."""
    words = text.lower()
    gone = [name for name in OPTIONAL if name in fields and name in words]
    return ["logprobs", "top_logprobs"] if "logprobs" in gone and "logprobs" in fields else gone


def _check(request: Generate, kind: ServerKind) -> None:
    if (
        request.prompt is not None
        or request.prompt_tokens is not None
        or request.infill is not None
    ):
        raise NotSupported("continuing a text without a chat on a server")
    if request.changes or request.edits:
        raise NotSupported("trying a changed model on a server")
    if request.prompt_logprobs is not None or request.endless:
        raise NotSupported("the probabilities of a prompt, or an endless answer, on a server")
    if request.prefix and kind not in GOES_ON:
        raise NotSupported("continuing an answer on this server (regenerate it instead): that")


def _message(message: ChatMessage, pictures: Mapping[str, bytes]) -> dict[str, Any]:
    made: dict[str, Any] = {"role": message.role}
    if message.pictures:
        parts = message.content if isinstance(message.content, list) else []
        made["content"] = [_part(part, pictures) for part in parts]
    elif message.role == "assistant":
        made["content"] = without_thought(message.text)
    else:
        made["content"] = message.text
    if message.calls:
        made["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.calls
        ]
    if message.call_id:
        made["tool_call_id"] = message.call_id
    return made


def _part(part: TextPart | PicturePart, pictures: Mapping[str, bytes]) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    data = pictures[part.digest]
    kind = next((kind for start, kind in BYTES.items() if data.startswith(start)), WEBP)
    url = f"data:{kind};base64,{base64.b64encode(data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def _form(form: AnswerForm, kind: ServerKind) -> dict[str, Any]:
    if isinstance(form, JsonObject):
        return {"response_format": {"type": "json_object"}}
    if isinstance(form, JsonSchema):
        schema = msgspec.json.decode(form.text)
        named = {"name": "answer", "schema": schema, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": named}}
    if isinstance(form, Regex) and kind == "vllm":
        return {"structured_outputs": {"regex": form.pattern}}
    if isinstance(form, Grammar) and form.syntax == "gbnf" and kind in ("cutaway", "llama-server"):
        return {"grammar": form.text}
    raise NotSupported(f"an answer by a {type(form).__name__.lower()} on this server")


def _tools(request: Generate) -> dict[str, Any]:
    tools = request.tools
    if not tools.known:
        return {}
    known = [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": msgspec.json.decode(tool.parameters),
            },
        }
        for tool in tools.known
    ]
    only = {"type": "function", "function": {"name": tools.only}}
    choice = only if tools.only else tools.choice
    return {"tools": known, "tool_choice": choice, "parallel_tool_calls": tools.several}
