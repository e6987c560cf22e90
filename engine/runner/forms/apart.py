"""An answer's thoughts, text and calls as pieces of their own."""

import json
import secrets
import string
from collections.abc import Iterator
from dataclasses import replace

from engine.answers.forms import Form, form_of, thought_end
from engine.answers.jsons import Types
from engine.answers.passages import Call, Passage
from engine.answers.reader import AnswerReader
from engine.protocol import CallPart, Generate, Piece, PieceKind, TokenInfo
from engine.runner.forms.tool_form import tool_form
from engine.runner.forms.turns import has_tools, parameters_of
from engine.tokenizer import ChatTemplate

_LETTERS = string.ascii_letters + string.digits


class Plain:
    """An answer's text as it comes, after what the prompt has `opened` for it. `calls` reads the
    same text: its calls are pieces of their own, beside the text that has them.
    """

    def __init__(self, request: Generate, opened: str, calls: "Apart | None" = None) -> None:
        self._request, self._opened, self._calls = request, opened, calls

    def push(self, text: str, tokens: list[TokenInfo]) -> Iterator[Piece]:
        """The pieces of more text, the last of the text with the tokens."""
        if self._opened:
            yield Piece(self._request.id, self._opened, [])
            self._opened = ""
        yield Piece(self._request.id, text, tokens)
        if self._calls is not None:
            yield from _calls_of([*self._calls.begun(), *self._calls.push(text, [])])

    def finish(self, text: str) -> list[Piece]:
        """The rest."""
        rest = [Piece(self._request.id, text, [])] if text else []
        if self._calls is not None:
            rest += _calls_of([*self._calls.begun(), *self._calls.finish(text)])
        return rest

    def reason(self, reason: str) -> str:
        """Why the answer ended, counted with its calls."""
        return reason if self._calls is None else self._calls.reason(reason)


def _calls_of(pieces: list[Piece]) -> list[Piece]:
    return [piece for piece in pieces if piece.call is not None]


class Apart:
    """Turns an answer's text into pieces, each of one kind, without the marks between them."""

    def __init__(self, template: ChatTemplate, request: Generate, opened: str, prefix: str) -> None:
        """`opened` is the thought that the prompt begins, `prefix` the answer that was sent."""
        self._request = request
        self._short_ids = "[TOOL_CALLS]" in template.text
        end = thought_end(opened) if not prefix.startswith(opened) else ""
        form = answer_form(template, request)
        self._reader = AnswerReader(form, _types(request), end or None)
        tools = request.tools
        self._most_calls = None if tools.several and not tools.only else 1
        self._arguments: dict[int, str] = {}  # sent so far, by the call's number
        self.n_calls = 0
        self.is_cut = False
        parts = self._reader.push(prefix)
        self._begun = [*self._deltas(), *self._pieces(parts)]
        self._n_begun, self.n_calls = self.n_calls, 0

    def begun(self) -> list[Piece]:
        """The pieces of the prefix, once."""
        begun, self._begun = self._begun, []
        self.n_calls, self._n_begun = self.n_calls + self._n_begun, 0
        return begun

    def push(self, text: str, tokens: list[TokenInfo]) -> Iterator[Piece]:
        """The pieces that are certain once `text` has come, the first with the tokens."""
        parts = self._reader.push(text)
        found = [*self._deltas(), *self._pieces(parts)]
        first, *rest = found or [self._piece(_kind(self._reader.open), "")]
        yield _with_tokens(first, tokens)
        yield from rest

    def finish(self, text: str) -> list[Piece]:
        """Return the remaining pieces after the last `text`. A call that is not whole is text,
        unless its arguments were sent: nothing is sent twice.
        """
        found = [*self._pieces(self._reader.push(text))]
        found = [*self._deltas(), *found]
        was_call, had_begun = self._reader.open == "call", self._reader.call_begun
        parts = self._reader.finish()
        self.is_cut = was_call and not any(part.kind == "call" for part in parts)
        if self.is_cut and had_begun:
            parts = []
        return [*found, *self._deltas(), *self._pieces(parts)]

    def reason(self, reason: str) -> str:
        """Why the answer ended, seen with its calls."""
        if self.is_cut:
            return "length"
        return "calls" if self.n_calls and reason == "stop" else reason

    def _deltas(self) -> Iterator[Piece]:
        for delta in self._reader.deltas():
            if self._most_calls is not None and delta.index >= self._most_calls:
                continue
            if delta.name:
                self._arguments[delta.index] = ""
                number = delta.id if delta.id and not self._short_ids else self._new_id()
                yield self._piece("call", call=CallPart(delta.index, number, delta.name))
            if delta.arguments:
                self._arguments[delta.index] += delta.arguments
                yield self._piece("call", call=CallPart(delta.index, arguments=delta.arguments))

    def _pieces(self, parts: list[Passage]) -> Iterator[Piece]:
        for part in parts:
            if part.call is None:
                yield self._piece(_kind(part.kind), part.text)
                continue
            if self._most_calls is not None and part.number >= self._most_calls:
                continue  # one was wanted, and more were written
            self.n_calls += 1
            if part.number not in self._arguments:
                yield self._piece("call", call=self._whole(part.number, part.call))

    def _whole(self, number: int, call: Call) -> CallPart:
        """A call whose arguments are written otherwise than as one JSON object."""
        encoded = json.dumps(dict(call.arguments), ensure_ascii=False)
        own = call.id if call.id and not self._short_ids else self._new_id()
        return CallPart(number, own, call.name, encoded)

    def _new_id(self) -> str:
        size = 9 if self._short_ids else 24
        random = "".join(secrets.choice(_LETTERS) for _ in range(size))
        return random if self._short_ids else f"call_{random}"

    def _piece(self, kind: PieceKind, text: str = "", call: CallPart | None = None) -> Piece:
        return Piece(self._request.id, text, [], kind, call)


def answer_form(template: ChatTemplate, request: Generate) -> Form:
    """How the answer is written: by the model's family; without tools it calls none."""
    form = form_of(template.text)
    if not has_tools(request):
        return replace(form, calling=(), bare=False)
    must = request.tools.choice == "required" or request.tools.only != ""
    if must or not tool_form(template).tools:
        return replace(form, bare=True)
    return form


def _with_tokens(piece: Piece, tokens: list[TokenInfo]) -> Piece:
    return Piece(piece.id, piece.text, tokens, piece.kind, piece.call)


def _kind(kind: str) -> PieceKind:
    kinds: dict[str, PieceKind] = {"thought": "thought", "call": "call"}
    return kinds.get(kind, "answer")


def _types(request: Generate) -> Types:
    """Return the JSON types of the tools' parameters."""
    types = {}
    for tool in request.tools.known:
        properties = parameters_of(tool).get("properties")
        known = properties.items() if isinstance(properties, dict) else ()
        types[tool.name] = {
            name: str(schema.get("type", "")) for name, schema in known if isinstance(schema, dict)
        }
    return types
