"""Calls of an answer: collected from its pieces, kept with results, sent to the model."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

import msgspec

from engine.answers.forms import ANY
from engine.answers.reader import read
from engine.protocol import CallPart, ChatMessage, PicturePart, TextPart, ToolCall

MOST_ROUNDS = 10
MOST_CALLS = 16  # in one answer; further ones are refused
DENIED = "the user has denied this call"
STOPPED = "the user has stopped this call"
TOO_MANY = f"more than {MOST_CALLS} calls in one answer"
CallState = Literal["writing", "asking", "running", "done", "failed", "denied", "stopped"]
_BARE = replace(ANY, bare=True)  # as models answer that know no syntax of calls


class ToolUse(msgspec.Struct, frozen=True):
    """One call with its result. `arguments` is JSON as text, `pictures` are SHA-256 in hex."""

    id: str
    name: str
    arguments: str
    state: CallState = "asking"
    result: str = ""
    seconds: float = 0.0
    pictures: list[str] = []

    @property
    def ended(self) -> bool:
        """True if there is a result."""
        return self.state not in ("writing", "asking", "running")


def stopped(use: ToolUse) -> ToolUse:
    """A use that ends without its result."""
    return msgspec.structs.replace(use, state="stopped", result=f"error: {STOPPED}")


class CollectedCalls:
    """Calls from the parts of an answer's pieces, in their order."""

    def __init__(self) -> None:
        self._parts: dict[int, list[CallPart]] = {}

    def add(self, part: CallPart) -> None:
        """Take the next part."""
        self._parts.setdefault(part.index, []).append(part)

    @property
    def calls(self) -> list[ToolCall]:
        """The calls as far as they are written; each with an id that no other one has."""
        made: list[ToolCall] = []
        for index, parts in sorted(self._parts.items()):
            known = {call.id for call in made}
            number = next((part.id for part in parts if part.id), f"call_{index}")
            number = f"{number}_{index}" if number in known else number
            name = next((part.name for part in parts if part.name), "")
            made.append(ToolCall(number, name, "".join(part.arguments for part in parts)))
        return made


def without_calls(text: str) -> str:
    """An answer's text as it was written, without what makes its calls."""
    passages, _ = read(text)
    if not any(passage.call for passage in passages) and text.lstrip().startswith("{"):
        passages, _ = read(text, _BARE)
    kept, at = [], 0
    for passage in passages:
        if passage.call is not None:
            kept.append(text[at : passage.start])
            at = passage.end
    return "".join([*kept, text[at:]]).strip() if kept else text


def with_results(
    text: str, uses: Sequence[ToolUse], pictures: Iterable[Sequence[PicturePart]] = ()
) -> list[ChatMessage]:
    """An answer and the results of its calls as the model reads them; `pictures` are those of each
    result.
    """
    calls = [ToolCall(use.id, use.name, _object(use.arguments)) for use in uses]
    messages = [ChatMessage("assistant", without_calls(text), calls=calls)]
    shown = [list(parts) for parts in pictures] or [[] for _ in uses]
    for use, parts in zip(uses, shown, strict=True):
        content: str | list[TextPart | PicturePart] = use.result
        if parts:
            content = [*parts, TextPart(use.result)]
        messages.append(ChatMessage("tool", content, call_id=use.id))
    return messages


def _object(arguments: str) -> str:
    """Arguments that a template can show: what is not a JSON object is none."""
    try:
        msgspec.json.decode(arguments or "{}", type=dict[str, object])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, UnicodeEncodeError):
        return "{}"
    return arguments or "{}"
