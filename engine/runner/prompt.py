"""From a request's words to token ids that fit the context."""

from dataclasses import dataclass
from itertools import takewhile

from engine.errors import BadSetting, ContextFull
from engine.protocol import ChatMessage, Generate
from engine.tokenizer import ChatTemplate, Tokenizer


@dataclass(frozen=True)
class Prompt:
    """Token ids; how many at their start survive a shift, and how many were left out to fit."""

    ids: list[int]
    keep: int
    n_truncated: int = 0


def make_prompt(
    tokenizer: Tokenizer, template: ChatTemplate, request: Generate, n_ctx: int
) -> Prompt:
    """The request as ids, the middle left out where it may be and must.

    Raises `BadSetting`, `TemplateError`, `ContextFull`.
    """
    if request.prompt is not None:
        prompt = _plain(tokenizer, request.prompt)
    elif not request.messages:
        raise BadSetting("prompt", "", "some text, or at least one message")
    elif template.source == "none":
        prompt = _plain(tokenizer, "\n\n".join(m.content for m in request.messages))
    else:
        prompt = _chat(tokenizer, template, request.messages)
    if not prompt.ids:
        raise BadSetting("prompt", "", "at least one token")
    return _fit(prompt, n_ctx, may_cut=request.when_full == "shift")


def _plain(tokenizer: Tokenizer, text: str) -> Prompt:
    ids = tokenizer.encode(text)
    return Prompt(ids, _bos(tokenizer, ids))


def _chat(tokenizer: Tokenizer, template: ChatTemplate, messages: list[ChatMessage]) -> Prompt:
    turns = [{"role": m.role, "content": m.content} for m in messages]
    ids = tokenizer.encode_prompt(template.render(turns))
    keep = _bos(tokenizer, ids)
    if turns[0]["role"] == "system" and len(turns) > 1:
        # What stays the same under another question is the system part.
        other = [turns[0], {"role": "user", "content": "?" + turns[1]["content"]}]
        pairs = zip(ids, tokenizer.encode_prompt(template.render(other)), strict=False)
        keep = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return Prompt(ids, keep)


def _bos(tokenizer: Tokenizer, ids: list[int]) -> int:
    return int(ids[:1] == [tokenizer.bos])


def _fit(prompt: Prompt, n_ctx: int, may_cut: bool) -> Prompt:
    """Leave room for one token; the middle, right after the kept part, goes first."""
    n, room = len(prompt.ids), n_ctx - 1
    if n <= room:
        return prompt
    keep = prompt.keep
    if not may_cut or keep >= room:
        raise ContextFull(n, n_ctx)
    cut = n - room
    return Prompt(prompt.ids[:keep] + prompt.ids[keep + cut :], keep, cut)
