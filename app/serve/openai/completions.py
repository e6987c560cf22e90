"""POST /v1/completions: texts continued, for editors and evaluation harnesses."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from app.serve import request_fields as fields
from app.serve.answers import all_of
from app.serve.collected import FINISH, Collected, text_bytes, timings, usage
from app.serve.flow import choices
from app.serve.openai.messages import ResponseStyle
from app.serve.web.body import decoded
from app.serve.web.refusal import Refusal
from app.serve.web.site import HttpCall
from app.serve.web.stream import FrameStream, Reply, error_event, event, json
from engine.protocol import DecodeTokens, Finished, Generate, Infill, Piece, TokenInfo

MOST_PROMPTS = 256
USUAL_TOKENS = 16  # as OpenAI's
Prompt = str | list[int]


class TextBody(fields.TextRequest):
    """A request."""

    prompt: str | list[str | int | list[int]] = ""
    logprobs: Annotated[int, Meta(ge=0, le=5)] | None = None
    echo: bool | None = None
    suffix: str | None = None
    best_of: int | None = None


@dataclass
class TextStyle(ResponseStyle):
    """How texts are gone on with."""

    prefix = "cmpl-"

    echoes: list[str]  # what each choice begins with

    @property
    def head(self) -> dict[str, Any]:
        return {**super().head, "object": "text_completion"}


async def completions(call: HttpCall) -> Reply:
    """Go on with texts."""
    body = decoded(call.body, TextBody)
    model = await call.model(body.model)
    if (body.best_of or 1) > (body.n or 1):
        raise Refusal(400, "best_of: not supported", param="best_of")
    n = fields.n_choices(body, call.gate.turns.slots)
    prompts = _prompts(body.prompt)
    if body.suffix and (body.echo or not all(isinstance(one, str) for one in prompts)):
        text = "suffix: expected prompts as text, and no echo"
        raise Refusal(400, text, param="suffix")
    requests = [one for prompt in prompts for one in choices(_request(call, body, prompt), n)]
    wants_usage = bool(body.stream_options and body.stream_options.include_usage)
    echoes = [
        await _text(call, prompt) if body.echo else "" for prompt in prompts for _ in range(n)
    ]
    style = TextStyle(model.name, body.logprobs, wants_usage, echoes)
    if body.stream:
        return FrameStream(_frames(call, requests, style), error_event)
    return json(await _whole(call, requests, style, n))


def _prompts(value: str | list[str | int | list[int]]) -> list[Prompt]:
    """Each prompt. Raises `Refusal`."""
    if isinstance(value, str):
        return [value]
    if value and all(isinstance(one, int) for one in value):
        return [[one for one in value if isinstance(one, int)]]
    prompts: list[Prompt] = [one for one in value if not isinstance(one, int)]
    if not prompts or len(prompts) < len(value) or len(prompts) > MOST_PROMPTS:
        text = f"prompt: a text, a list of tokens, or 1 to {MOST_PROMPTS} of these"
        raise Refusal(400, text, param="prompt")
    return prompts


def _request(call: HttpCall, body: TextBody, prompt: Prompt) -> Generate:
    top = body.logprobs
    place = None
    if body.suffix and isinstance(prompt, str):
        place = Infill(prompt, body.suffix, suffix_first=call.desk.settings.spm_infill)
    return Generate(
        0,
        infill=place,
        prompt=prompt if isinstance(prompt, str) and place is None else None,
        prompt_tokens=None if isinstance(prompt, str) else prompt,
        sampling=call.sampling(fields.sampling(body), openai=True),
        max_tokens=fields.limit(body.max_tokens, USUAL_TOKENS),
        stop=fields.stops(body.stop),
        form=fields.form(body),
        bias=fields.bias(body.logit_bias),
        edits=body.edits or [],
        endless=bool(body.ignore_eos),
        logprobs=0 if top is None else max(1, top),
        prompt_logprobs=top if body.echo and top is not None else None,
        when_full="stop",
        speculation=fields.speculation(body),
        lora=fields.lora(body.lora),
    )


async def _text(call: HttpCall, prompt: Prompt) -> str:
    if isinstance(prompt, str):
        return prompt
    return (await call.gate.get(DecodeTokens(0, prompt))).text


async def _whole(
    call: HttpCall, requests: list[Generate], style: TextStyle, n: int
) -> dict[str, Any]:
    made = await all_of(call.answers(requests))
    return style.head | {
        "choices": [_choice(i, one, style) for i, one in enumerate(made)],
        "usage": _usage(made, n),
        "timings": timings(made[0].end.stats),
    }


def _usage(made: list[Collected], n: int) -> dict[str, Any]:
    """Return the token usage of all prompts, each of which was read once for its `n` choices."""
    total = usage(made[:n])
    for i in range(n, len(made), n):
        more = usage(made[i : i + n])
        details = total["prompt_tokens_details"], more["prompt_tokens_details"]
        cached = sum(one["cached_tokens"] for one in details)
        total = {key: total[key] + more[key] for key in more if key.endswith("_tokens")}
        total["prompt_tokens_details"] = {"cached_tokens": cached}
    return total


def _choice(index: int, made: Collected, style: TextStyle) -> dict[str, Any]:
    echo = style.echoes[index]
    logprobs = None
    if style.top is not None:
        logprobs = token_lists([*made.prompt_tokens, *made.tokens], style.top, echo + made.text)
    return {
        "text": echo + made.text,
        "index": index,
        "logprobs": logprobs,
        "finish_reason": FINISH[made.end.reason],
    }


def token_lists(tokens: list[TokenInfo], top: int, text: str, begins: int = 0) -> dict[str, Any]:
    """Lists of equal length; `text` is what the tokens became, from `begins` of the answer on."""
    offsets = [begins + at for at in token_offsets(tokens, text)]
    return {
        "tokens": [token.text for token in tokens],
        "token_logprobs": [token.logprob for token in tokens],
        "top_logprobs": [_likeliest(token, top) for token in tokens],
        "text_offset": offsets,
    }


def token_offsets(tokens: list[TokenInfo], text: str) -> list[int]:
    """The character of `text` at which each token begins. Control tokens may have no place in it,
    nor the space that a tokenizer puts in front; one token may be half a character.
    """
    data, at, begun = text.encode(), 0, 0  # a place in bytes, and the characters that begin before
    offsets = []
    for token in tokens:
        within = at < len(data) and data[at] & 0xC0 == 0x80
        offsets.append(begun - within)
        own = text_bytes(token)
        found = own if data.startswith(own, at) else own[1:] if own[:1] == b" " else b""
        if found and data.startswith(found, at):
            begun += sum(byte & 0xC0 != 0x80 for byte in found)
            at += len(found)
    return offsets


def _likeliest(token: TokenInfo, top: int) -> dict[str, float] | None:
    if token.logprob is None:
        return None
    return {_named(one.text, text_bytes(one)): one.logprob for one in token.top[:top]}


def _named(text: str, data: bytes) -> str:
    """A token as a key, which two of them do not share: half a character by its bytes."""
    return text if text.encode() == data else "bytes:" + "".join(f"\\x{b:02x}" for b in data)


async def _frames(
    call: HttpCall, requests: list[Generate], style: TextStyle
) -> AsyncIterator[bytes]:
    streams = [TextStream(i, style, request) for i, request in enumerate(requests)]
    async with call.answers(requests) as answers:
        while batch := await answers.batch():
            frames = [
                frame
                for place, replies in groupby(batch, key=lambda one: one[0])
                for frame in streams[place].frames([reply for _, reply in replies])
            ]
            if frames:
                yield b"".join(frames)
    made = [stream.made for stream in streams]
    if style.usage:
        more = {"usage": usage(made), "timings": timings(made[0].end.stats)}
        yield event(style.head | {"choices": []} | more)
    yield b"data: [DONE]\n\n"


class TextStream:
    """One choice's chunks."""

    def __init__(self, index: int, style: TextStyle, request: Generate) -> None:
        self._index, self._style = index, style
        self.made = Collected.of(request)
        self._held: list[TokenInfo] = []
        self._at = 0
        self._echo = style.echoes[index]

    def frames(self, replies: list[Any]) -> list[bytes]:
        """Convert replies to event frames; the first includes the start of the choice."""
        frames = []
        for reply in replies:
            if isinstance(reply, Piece):
                waited = self.made.waits_for_prompt
                self.made.take(msgspec.structs.replace(reply, text=""))
                self._held += reply.tokens
                text = self._echo + ("" if waited else reply.text)
                if text:
                    frames.append(self._chunk(text))
                    self._echo = ""
            elif isinstance(reply, Finished):
                self.made.finished = reply
                frames.append(self._chunk(self._echo, FINISH[reply.reason]))
        return frames

    def _chunk(self, text: str, reason: str | None = None) -> bytes:
        logprobs = None
        if self._style.top is not None and text:
            logprobs = token_lists(self._held, self._style.top, text, self._at)
            self._held = []
        self._at += len(text)
        choice = {"text": text, "index": self._index, "logprobs": logprobs, "finish_reason": reason}
        more = {"usage": None} if self._style.usage else {}
        return event(self._style.head | {"choices": [choice]} | more)
