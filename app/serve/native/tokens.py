"""Texts as tokens and back, and chats as the template makes them."""

from typing import Any

from msgspec import Struct

from app.serve.web.body import decoded
from app.serve.web.site import HttpCall
from app.serve.web.stream import Reply, json
from engine.protocol import ChatMessage, DecodeTokens, EncodeText, Render


class TokenizeBody(Struct):
    """A text."""

    content: str
    add_special: bool = False
    parse_special: bool = True
    with_pieces: bool = False


class DetokenizeBody(Struct):
    """Tokens."""

    tokens: list[int]


class TemplateMessage(Struct):
    """One message, its content as text or in parts of it."""

    role: str
    content: str | list[dict[str, Any]] | None = None


class TemplateBody(Struct):
    """A chat."""

    messages: list[TemplateMessage]


async def tokenize(call: HttpCall) -> Reply:
    """A text as tokens, with their texts where these are wanted; half a character as bytes."""
    body = decoded(call.body, TokenizeBody)
    call.desk.shelf.check()
    request = EncodeText(0, body.content, body.add_special, body.parse_special)
    found = await call.gate.get(request)
    if not body.with_pieces:
        return json({"tokens": found.tokens})
    pairs = zip(found.tokens, found.pieces, strict=True)
    return json({"tokens": [{"id": token, "piece": _piece(data)} for token, data in pairs]})


async def detokenize(call: HttpCall) -> Reply:
    """Tokens as a text."""
    body = decoded(call.body, DetokenizeBody)
    call.desk.shelf.check()
    return json({"content": (await call.gate.get(DecodeTokens(0, body.tokens))).text})


async def apply_template(call: HttpCall) -> Reply:
    """A chat as the model reads it."""
    body = decoded(call.body, TemplateBody)
    call.desk.shelf.check()
    messages = [ChatMessage(one.role, _content(one.content)) for one in body.messages]
    return json({"prompt": (await call.gate.get(Render(0, messages))).text})


def _content(given: str | list[dict[str, Any]] | None) -> str:
    if given is None or isinstance(given, str):
        return given or ""
    return "".join(str(part.get("text", "")) for part in given)


def _piece(data: bytes) -> str | list[int]:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return list(data)
