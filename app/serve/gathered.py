"""One answer put together from its pieces."""

from dataclasses import dataclass, field
from typing import Self

import msgspec

from engine.protocol import CallPart, Finished, Generate, Piece, TokenInfo, ToolCall


@dataclass
class Gathered:
    """The text, tokens and calls of one choice so far; `finished` is its end."""

    text: str = ""
    thought: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    tokens: list[TokenInfo] = field(default_factory=list)
    prompt_tokens: list[TokenInfo] = field(default_factory=list)
    finished: Finished | None = None
    waits_for_prompt: bool = False

    @classmethod
    def of(cls, request: Generate) -> Self:
        """The answer to this request, before anything is said."""
        return cls(waits_for_prompt=request.prompt_logprobs is not None)

    def hear(self, reply: object) -> None:
        """One more of the engine's replies."""
        if isinstance(reply, Piece):
            self.take(reply)
        elif isinstance(reply, Finished):
            self.finished = reply

    def take(self, piece: Piece) -> None:
        """One more piece; where the prompt's tokens were asked for, the first is of these."""
        if self.waits_for_prompt:
            self.prompt_tokens, self.waits_for_prompt = piece.tokens, False
            return
        self.tokens += piece.tokens
        if piece.call is not None:
            self._call(piece.call)
        elif piece.kind == "thought":
            self.thought += piece.text
        else:
            self.text += piece.text

    @property
    def end(self) -> Finished:
        """How it ended."""
        assert self.finished is not None
        return self.finished

    def drop_cut_call(self) -> None:
        """Leave out a last call that the end of the answer has cut: its arguments are no JSON."""
        if self.calls and self.end.reason != "calls":
            try:
                msgspec.json.decode(self.calls[-1].arguments)
            except msgspec.DecodeError:
                del self.calls[-1]

    def _call(self, part: CallPart) -> None:
        while len(self.calls) <= part.index:
            self.calls.append(ToolCall("", "", ""))
        call = self.calls[part.index]
        self.calls[part.index] = ToolCall(
            call.id or part.id, call.name or part.name, call.arguments + part.arguments
        )
