"""From a request's words to token ids that fit the context."""

from dataclasses import dataclass
from itertools import takewhile

from engine.errors import BadSetting, ContextFull, NotSupported
from engine.protocol import ChatMessage, Generate, WhenFull
from engine.tokenizer import ChatTemplate, Tokenizer
from engine.tokenizer.decode import StreamDecoder


@dataclass(frozen=True)
class Prompt:
    """Token ids; how many at their start survive a shift, and how many were left out to fit."""

    ids: list[int]
    keep: int
    n_truncated: int = 0


def make_prompt(
    tokenizer: Tokenizer, template: ChatTemplate, request: Generate, n_ctx: int
) -> Prompt:
    """Token ids of the request; a part is left out if it is too long and may be cut.

    Raises `BadSetting`, `TemplateError`, `ContextFull`.
    """
    # Ids are taken as they are; a text is encoded with the prompt, so that spaces come out right.
    begun = "" if request.prefix_tokens else request.prefix
    if request.prompt is not None:
        prompt = _plain(tokenizer, request.prompt + begun)
    elif not request.messages:
        raise BadSetting("prompt", "", "some text, or at least one message")
    elif template.source == "none":
        prompt = _plain(tokenizer, prompt_text(template, request.messages) + begun)
    else:
        prompt = _chat(tokenizer, template, request.messages, begun)
    prompt.ids.extend(request.prefix_tokens)
    if not prompt.ids:
        raise BadSetting("prompt", "", "at least one token")
    return _fit(prompt, n_ctx, request.when_full)


def prompt_text(template: ChatTemplate, messages: list[ChatMessage]) -> str:
    """What the template makes of messages. Raises `BadSetting` without one, `TemplateError`."""
    if not messages:
        raise BadSetting("messages", "", "at least one message")
    if template.source == "none":
        return "\n\n".join(m.text for m in messages)
    return template.render(_turns(messages))


def encoded(tokenizer: Tokenizer, template: ChatTemplate, text: str) -> list[int]:
    """Token ids of what `prompt_text` has made."""
    return tokenizer.encode(text) if template.source == "none" else tokenizer.encode_prompt(text)


def beyond_prefix(request: Generate, decoder: StreamDecoder) -> str:
    """The text of `prefix_tokens` beyond `prefix`; the decoder continues after their last byte.

    Raises `BadSetting` where they say something else, `TokenizerError` for an unknown id.
    """
    if not request.prefix_tokens:
        return ""
    text = "".join([decoder.push(token) for token in request.prefix_tokens])
    if not text.startswith(request.prefix):
        raise BadSetting("prefix_tokens", text, f"ids of a text that begins {request.prefix!r}")
    return text.removeprefix(request.prefix)


def _plain(tokenizer: Tokenizer, text: str) -> Prompt:
    ids = tokenizer.encode(text)
    return Prompt(ids, _bos(tokenizer, ids))


def _chat(
    tokenizer: Tokenizer, template: ChatTemplate, messages: list[ChatMessage], begun: str
) -> Prompt:
    turns = _turns(messages)
    ids = tokenizer.encode_prompt(template.render(turns) + begun)
    keep = _bos(tokenizer, ids)
    if turns[0]["role"] == "system" and len(turns) > 1:
        # The system part is what stays the same when the question changes.
        other = [turns[0], {"role": "user", "content": "?" + turns[1]["content"]}]
        pairs = zip(ids, tokenizer.encode_prompt(template.render(other)), strict=False)
        keep = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return Prompt(ids, keep)


def _turns(messages: list[ChatMessage]) -> list[dict[str, str]]:
    if any(message.pictures for message in messages):
        raise NotSupported("showing pictures to this model")
    return [{"role": m.role, "content": m.text} for m in messages]


def _bos(tokenizer: Tokenizer, ids: list[int]) -> int:
    return int(ids[:1] == [tokenizer.bos])


def _fit(prompt: Prompt, n_ctx: int, when_full: WhenFull) -> Prompt:
    """Cut until there is room for one more token: right after the kept part, or in the middle of
    what follows it.
    """
    n, room = len(prompt.ids), n_ctx - 1
    if n <= room:
        return prompt
    keep = prompt.keep
    if when_full == "stop" or keep >= room:
        raise ContextFull(n, n_ctx)
    cut = n - room
    begin = keep + (room - keep) // 2 if when_full == "middle" else keep
    return Prompt(prompt.ids[:begin] + prompt.ids[begin + cut :], keep, cut)
