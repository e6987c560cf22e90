"""From a request's words and pictures to items that fit the context."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile

import msgspec

from engine.answers.forms import opened
from engine.errors import BadSetting, CannotSee, ContextFull
from engine.protocol import Generate, PicturePart, WhenFull
from engine.runner.aside import check_length, least_tokens
from engine.runner.forms.turns import RequestedChat, Turn, has_tools, turns_of, variables_of
from engine.runner.infill import infill_tokens
from engine.runner.pictures.compose import compose
from engine.runner.pictures.items import EncodedText, Item, Shown, extents, tokens_of, whole
from engine.runner.pictures.marking import mended
from engine.runner.pictures.viewer import Viewer
from engine.tokenizer import ChatTemplate, Tokenizer
from engine.tokenizer.tokenizer import StreamDecoder

Fits = Callable[[str], None]
_OTHER = 64
"""Characters of a question that differs from a chat's own."""


@dataclass(frozen=True)
class Prompt:
    """Items; how many at their start survive a shift, and how many were left out to fit.

    `pictures` are all that the request shows, in order; `notes` show which of them were left out.
    `opened` is how the template ends where it begins a thought, which the answer goes on with.
    """

    items: list[Item]
    keep: int
    n_truncated: int = 0
    pictures: tuple[Shown, ...] = ()
    notes: tuple[str, ...] = ()
    opened: str = ""


def make_prompt(
    tokenizer: Tokenizer,
    template: ChatTemplate,
    request: Generate,
    n_ctx: int,
    viewer: Viewer | None = None,
    start: int | None = None,
) -> Prompt:
    """The items of the request; a part is left out if it is too long and may be cut. Where an
    encoder reads the prompt, `start` is the decoder's first token: both are one item, before what
    is given of the answer.

    Raises `BadSetting`, `TemplateError`, `ContextFull`, `CannotFill`, `CannotSee` for pictures
    without a viewer, and `UnknownPictures`.
    """
    if start is not None:
        return _for_encoder(tokenizer, template, request, n_ctx, start)
    # Ids are taken as they are; a text is encoded with the prompt, so that spaces come out right.
    begun = "" if request.prefix_tokens else request.prefix
    fits = partial(_check_fits, tokenizer, n_ctx, request.when_full)
    if request.prompt_tokens is not None:
        if request.when_full == "stop" and len(request.prompt_tokens) >= n_ctx:
            raise ContextFull(len(request.prompt_tokens), n_ctx)
        prompt = _given(tokenizer, request.prompt_tokens, begun)
    elif request.prompt is not None:
        prompt = _plain(tokenizer, request.prompt + begun, fits)
    elif request.infill is not None:
        if request.infill.window is None:
            fits(request.infill.text)
        tokens = infill_tokens(tokenizer, request.infill, n_ctx, request.max_tokens)
        prompt = _given(tokenizer, tokens, begun)
    elif not request.messages:
        raise BadSetting("prompt", "", "some text, or at least one message")
    elif any(message.pictures for message in request.messages):
        prompt = _seen(tokenizer, template, request, begun, _needed(viewer), fits)
    elif template.source == "none":
        prompt = _plain(tokenizer, prompt_text(template, request) + begun, fits)
    else:
        prompt = _chat(tokenizer, template, request, begun, fits)
    prompt.items.extend(request.prefix_tokens)
    if not prompt.items:
        raise BadSetting("prompt", "", "at least one token")
    if viewer is not None:
        for picture in prompt.pictures:
            viewer.fits(picture, n_ctx)
    return _fit(prompt, n_ctx, request.when_full)


def _for_encoder(
    tokenizer: Tokenizer, template: ChatTemplate, request: Generate, n_ctx: int, start: int
) -> Prompt:
    """The prompt for an encoder, which reads a whole context; the decoder begins with `start`.
    Without a template there are no turns: of a chat the system's text and the last message count.
    """
    messages = request.messages
    if template.source == "none":
        messages = [one for one in messages[:-1] if one.role == "system"] + messages[-1:]
    whole = msgspec.structs.replace(request, messages=messages, prefix="", prefix_tokens=[])
    prompt = make_prompt(tokenizer, template, whole, n_ctx + 1)
    text = tuple(tokens_of(prompt.items))
    begun = request.prefix_tokens or tokenizer.encode(request.prefix, add_special=False)
    return Prompt([EncodedText(start, text), *begun], 1, prompt.n_truncated)


def prompt_text(template: ChatTemplate, chat: RequestedChat, viewer: Viewer | None = None) -> str:
    """Render a chat with the template, including its own marks for pictures. Raises `BadSetting`
    without a message or for tools that cannot be called, `TemplateError`, `CannotSee`.
    """
    if not chat.messages:
        raise BadSetting("messages", "", "at least one message")
    if any(message.pictures for message in chat.messages):
        return mended(_marked_text(template, chat, _needed(viewer)))
    return _text(template, chat, turns_of(template, chat))


def _text(
    template: ChatTemplate, chat: RequestedChat, turns: Sequence[Turn], prompt: bool = True
) -> str:
    if template.source == "none":
        return "\n\n".join(turn["content"] for turn in turns)
    return template.render(turns, prompt, **variables_of(template, chat))


def encoded(
    tokenizer: Tokenizer, template: ChatTemplate, chat: RequestedChat, viewer: Viewer | None = None
) -> tuple[list[Item], list[Shown]]:
    """The items of messages, before any is left out, and the pictures. Raises as `make_prompt`."""
    if any(message.pictures for message in chat.messages):
        seen = _seen(tokenizer, template, chat, "", _needed(viewer), lambda text: None)
        return seen.items, list(seen.pictures)
    text = prompt_text(template, chat)
    ids = tokenizer.encode(text) if template.source == "none" else tokenizer.encode_prompt(text)
    return [*ids], []


def answer_opening(tokenizer: Tokenizer, template: ChatTemplate, request: Generate) -> list[Item]:
    """The items behind a chat's last message: what the template opens an answer with, and what of
    the answer is given. None where they cannot be distinguished.
    """
    plain = request.prompt is not None or request.prompt_tokens is not None
    plain = plain or request.infill is not None
    if plain or not request.messages or template.source == "none":
        return []
    turns = turns_of(template, request)
    closed, opened = (_text(template, request, turns, prompt) for prompt in (False, True))
    if not opened.startswith(closed):
        return []
    begun = "" if request.prefix_tokens else request.prefix
    ids = tokenizer.encode(opened[len(closed) :] + begun, add_special=False, continues=True)
    return [*ids, *request.prefix_tokens]


def beyond_prefix(request: Generate, decoder: StreamDecoder, begins: str) -> str:
    """The text of `prefix_tokens` beyond `prefix`, behind what the prompt `begins` of the answer;
    the decoder continues after their last byte.

    Raises `BadSetting` where they say something else, `TokenizerError` for an unknown id.
    """
    if not request.prefix_tokens:
        return ""
    text = "".join([decoder.push(token) for token in request.prefix_tokens])
    for so_far in (begins + text, text):
        if so_far.startswith(request.prefix):
            return so_far.removeprefix(request.prefix)
    raise BadSetting("prefix_tokens", text, f"ids of a text that begins {request.prefix!r}")


def _check_fits(tokenizer: Tokenizer, n_ctx: int, when_full: WhenFull, text: str) -> None:
    """Raise `ContextFull` for a text that surely does not fit and may not be cut, `BadSetting` for
    one that is too long to be cut: before it is tokenised, which would take its time and memory.
    """
    if when_full == "stop" and (least := least_tokens(tokenizer, text, n_ctx)) > n_ctx - 1:
        detail = "it has that many at least; shorten the prompt or raise --ctx"
        raise ContextFull(least, n_ctx, detail)
    check_length("prompt", text, n_ctx)


def _plain(tokenizer: Tokenizer, text: str, fits: Fits) -> Prompt:
    fits(text)
    ids = tokenizer.encode(text)
    return Prompt([*ids], _bos(tokenizer, ids))


def _given(tokenizer: Tokenizer, tokens: Sequence[int], begun: str) -> Prompt:
    for token in tokens:
        if not 0 <= token < tokenizer.size:
            raise BadSetting("prompt_tokens", token, f"ids from 0 to {tokenizer.size - 1}")
    rest = tokenizer.encode(begun, add_special=False, continues=True)
    return Prompt([*tokens, *rest], _bos(tokenizer, tokens))


def _chat(
    tokenizer: Tokenizer, template: ChatTemplate, chat: RequestedChat, begun: str, fits: Fits
) -> Prompt:
    text = prompt_text(template, chat)
    fits(text)
    begins = opened(text)
    ids = tokenizer.encode_prompt(text + begun.removeprefix(begins))
    return Prompt([*ids], _kept(tokenizer, template, chat, ids), opened=begins)


def _seen(
    tokenizer: Tokenizer,
    template: ChatTemplate,
    chat: RequestedChat,
    begun: str,
    viewer: Viewer,
    fits: Fits,
) -> Prompt:
    """A chat with pictures."""
    parts: list[PicturePart] = [part for message in chat.messages for part in message.pictures]
    text = _marked_text(template, chat, viewer)
    fits(text)
    begins = opened(text)
    items, pictures = compose(tokenizer, viewer, text + begun.removeprefix(begins), parts)
    keep = _kept(tokenizer, template, chat, items)
    return Prompt(items, keep, pictures=tuple(pictures), opened=begins)


def _marked_text(template: ChatTemplate, chat: RequestedChat, viewer: Viewer) -> str:
    return _text(template, chat, turns_of(template, chat, viewer.marking.content))


def _needed(viewer: Viewer | None) -> Viewer:
    if viewer is None:
        raise CannotSee
    return viewer


def _kept(
    tokenizer: Tokenizer, template: ChatTemplate, chat: RequestedChat, items: Sequence[Item]
) -> int:
    """How many items are the system part, with tools: what stays the same when the question
    changes.
    """
    turns = turns_of(template, chat)
    n_system = int(turns[0]["role"] == "system")
    if template.source == "none" or len(turns) == n_system or not (n_system or has_tools(chat)):
        return _bos(tokenizer, items)
    # It parts at its first letter; more of a long one would only be tokenised in vain.
    question = {"role": "user", "content": f"?{turns[n_system]['content']}"[:_OTHER]}
    other = tokenizer.encode_prompt(_text(template, chat, [*turns[:n_system], question]))
    pairs = zip(items, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _bos(tokenizer: Tokenizer, items: Sequence[Item]) -> int:
    return int(items[:1] == [tokenizer.bos])


def _fit(prompt: Prompt, n_ctx: int, when_full: WhenFull) -> Prompt:
    """Cut until there is room for one more token: right after the kept part, or in the middle of
    what follows it. Pictures go as a whole.
    """
    items = prompt.items
    n, room = len(items), n_ctx - 1
    if n <= room:
        return prompt
    keep = prompt.keep
    if when_full == "stop" or keep >= room:
        raise ContextFull(n, n_ctx)
    middle = keep + (room - keep) // 2 if when_full == "middle" else keep
    begin, end = whole(items, keep, middle, n - room)
    if end == n:
        raise ContextFull(n, n_ctx)
    gone = [i for i, e in enumerate(extents(items), 1) if begin <= e.begin and e.end <= end]
    notes = tuple(f"picture {i} no longer fits the context and was dropped" for i in gone)
    left = items[:begin] + items[end:]
    return Prompt(left, keep, end - begin, prompt.pictures, notes, prompt.opened)
