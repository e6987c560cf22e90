"""Routes for monitors and llama-server's clients: the server's state (/health, /metrics, /props,
/slots, /lora-adapters), /completion and /infill, and texts as tokens and back.
"""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from app.serve import request_fields as fields
from app.serve.answers import all_of
from app.serve.collected import timings
from app.serve.served import OpenModel
from app.serve.web.body import decoded
from app.serve.web.refusal import Refusal, error, unavailable
from app.serve.web.site import Dialect, HttpCall, with_and_without
from app.serve.web.stream import FrameStream, Reply, Whole, error_event, event, json
from engine.protocol import (
    ChatMessage,
    DecodeTokens,
    EncodeText,
    Finished,
    Generate,
    Infill,
    LineLimits,
    ListAdapters,
    ListSlots,
    Piece,
    Render,
    ScaleAdapters,
    Snippet,
)

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


async def root(call: HttpCall) -> Reply:
    """Answer programs that look for a server at its bare address."""
    return Whole(b"Cutaway is running", "text/plain; charset=utf-8")


async def health(call: HttpCall) -> Reply:
    """Report whether a model is ready."""
    shelf = call.desk.shelf
    shelf.check()
    return json({"status": "ok"})


async def metrics(call: HttpCall) -> Reply:
    """All counts, for Prometheus."""
    if not call.desk.settings.metrics:
        raise Refusal(404, "metrics are off; start the server with --metrics")
    gate = call.gate
    table = gate.table
    usage = 1 - table.n_free / max(1, table.n_cells) if table is not None else None
    text = gate.counts.text(gate.turns.busy, gate.turns.waiting, usage)
    return Whole(text.encode(), PROMETHEUS)


async def props(call: HttpCall) -> Reply:
    """Describe the served model in llama-server's format."""
    model = call.desk.shelf.ready
    loaded = model.loaded
    return json(
        {
            "total_slots": call.gate.turns.slots,
            "default_generation_settings": {"n_ctx": loaded.n_ctx, "params": _params(model)},
            "model_alias": model.name,
            "model_path": _file_name(loaded.path),
            "chat_template": model.meta("tokenizer.chat_template"),
            "modalities": {"vision": loaded.vision is not None, "audio": False},
            "build_info": f"cutaway {loaded.architecture}",
        }
    )


async def slots(call: HttpCall) -> Reply:
    """Running requests, without their texts; 503 where that was requested."""
    gate = call.gate
    n_ctx = call.desk.shelf.ready.loaded.n_ctx
    if call.query.get("fail_on_no_slot") == "1" and gate.turns.busy >= gate.turns.slots:
        raise unavailable("no slot is free")
    table = await gate.get(ListSlots(0))
    rows: list[dict[str, Any]] = [
        {
            "id": row.number,
            "n_ctx": n_ctx,
            "is_processing": row.request > 0,
            "n_tokens": row.n_tokens,
            "n_prompt": row.n_prompt,
            "n_read": row.n_read,
            "n_generated": row.n_generated,
        }
        for row in table.slots
    ]
    return json(rows)


async def lora_adapters(call: HttpCall) -> Reply:
    """The adapters by their numbers, and their scales."""
    call.desk.shelf.check()
    found = (await call.gate.get(ListAdapters(0))).adapters
    return json(
        [
            {"id": i, "path": _file_name(one.path), "scale": one.scale, "name": one.name}
            for i, one in enumerate(found)
        ]
    )


async def scale_adapters(call: HttpCall) -> Reply:
    """Scale the adapters for all requests that do not say otherwise; those left out are off."""
    wanted = fields.lora(decoded(call.body, list[fields.LoraField])) or {}
    call.desk.shelf.check()
    adapters = (await call.gate.get(ListAdapters(0))).adapters
    if wrong := [number for number in wanted if number >= len(adapters)]:
        raise Refusal(400, f"id: there is no adapter {wrong[0]}, of {len(adapters)}", param="id")
    scales = [wanted.get(i, 0.0) for i in range(len(adapters))]
    await call.gate.get(ScaleAdapters(0, scales))
    return json({"success": True})


def _params(model: OpenModel) -> dict[str, Any]:
    """How requests that leave fields out are sampled, under llama-server's names."""
    usual = model.sampling[True]
    return {
        "temperature": usual.temperature,
        "top_k": usual.top_k,
        "top_p": usual.top_p,
        "min_p": usual.min_p,
        "repeat_penalty": usual.repeat_penalty,
        "repeat_last_n": usual.penalty_last_n,
        "frequency_penalty": usual.frequency_penalty,
        "presence_penalty": usual.presence_penalty,
        "stop": [*model.stop],
    }


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]


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


def _content(content: str | list[dict[str, Any]] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(str(part.get("text", "")) for part in content)


def _piece(data: bytes) -> str | list[int]:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return list(data)


class PredictBody(fields.TextRequest):
    """Fields of both; `n_predict` is llama-server's name of `max_tokens`. `n_indent` and
    `t_max_predict_ms` limit lines.
    """

    n_predict: fields.Count | None = None
    n_indent: Annotated[int, Meta(ge=0)] | None = None
    t_max_predict_ms: int | None = None


class CompletionBody(PredictBody):
    """A text to go on with."""

    prompt: str | list[int] = ""


class FileBody(Struct):
    """A part of another file."""

    text: str
    filename: str = ""


class InfillBody(PredictBody, kw_only=True):
    """A place in a file; `prompt` is what of its line is there already."""

    input_prefix: str
    input_suffix: str
    input_extra: list[FileBody] = []
    prompt: str = ""


WINDOW = 2048
"""Tokens around a place that is filled in, llama-server's usual batch."""


async def completion(call: HttpCall) -> Reply:
    """Go on with one text."""
    body = decoded(call.body, CompletionBody)
    model = await call.model(body.model)
    request = _request(call, body)
    if isinstance(body.prompt, str):
        request = replace(request, prompt=body.prompt)
        return await _answered(call, body, request, model.name, {"prompt": body.prompt})
    return await _answered(call, body, replace(request, prompt_tokens=body.prompt), model.name)


async def infill(call: HttpCall) -> Reply:
    """Write the text between two parts of a file."""
    body = decoded(call.body, InfillBody)
    model = await call.model(body.model)
    place = Infill(
        body.input_prefix,
        body.input_suffix,
        body.prompt,
        [Snippet(one.text, one.filename) for one in body.input_extra],
        window=WINDOW,
        suffix_first=call.desk.settings.spm_infill,
    )
    return await _answered(call, body, replace(_request(call, body), infill=place), model.name)


def _request(call: HttpCall, body: PredictBody) -> Generate:
    """Make the request, without its text. Raises `Refusal`."""
    most = body.max_tokens if body.n_predict is None else body.n_predict
    return Generate(
        0,
        sampling=call.sampling(fields.sampling(body), openai=True),
        max_tokens=fields.limit(most),
        stop=fields.stops(body.stop),
        form=fields.form(body),
        bias=fields.bias(body.logit_bias),
        edits=body.edits or [],
        endless=bool(body.ignore_eos),
        lines=LineLimits(body.n_indent or 0, max(0, body.t_max_predict_ms or 0) / 1000),
        when_full="stop",
        speculation=fields.speculation(body),
        lora=fields.lora(body.lora),
    )


async def _answered(
    call: HttpCall,
    body: PredictBody,
    request: Generate,
    model: str,
    more: dict[str, Any] = {},  # noqa: B006
) -> Reply:
    """Answer as a stream, or whole with the fields of `more`."""
    if body.stream:
        return FrameStream(_frames(call, request, model), error_event)
    (made,) = await all_of(call.answers([request]))
    end = _end(made.end, model, [token.token for token in made.tokens])
    return json({"content": made.text} | end | more)


async def _frames(call: HttpCall, request: Generate, model: str) -> AsyncIterator[bytes]:
    async with call.answers([request]) as answers:
        while replies := await answers.batch():
            frames = []
            for _, reply in replies:
                if isinstance(reply, Piece) and (reply.text or reply.tokens):
                    ids = [token.token for token in reply.tokens]
                    fields: dict[str, Any] = {"index": 0, "content": reply.text, "tokens": ids}
                    frames.append(event(fields | {"stop": False}))
                elif isinstance(reply, Finished):
                    frames.append(event({"index": 0, "content": ""} | _end(reply, model, [])))
            if frames:
                yield b"".join(frames)


def _end(end: Finished, model: str, ids: list[int]) -> dict[str, Any]:
    stats = end.stats
    word = end.matched is not None
    return {
        "tokens": ids,
        "stop": True,
        "model": model,
        "tokens_predicted": stats.n_generated,
        "tokens_evaluated": stats.n_prompt,
        "tokens_cached": stats.n_cached,
        "truncated": False,
        "stop_type": "word" if word else "eos" if end.reason == "stop" else "limit",
        "stopping_word": end.matched or "",
        "timings": timings(stats),
    }


NATIVE = Dialect(
    {
        **with_and_without(
            "/v1",
            {
                ("GET", "/v1/health"): health,
                ("POST", "/v1/tokenize"): tokenize,
                ("POST", "/v1/detokenize"): detokenize,
                ("POST", "/v1/apply-template"): apply_template,
            },
        ),
        ("GET", "/"): root,
        ("GET", "/metrics"): metrics,
        ("POST", "/completion"): completion,
        ("POST", "/infill"): infill,
        ("GET", "/props"): props,
        ("GET", "/slots"): slots,
        ("GET", "/lora-adapters"): lora_adapters,
        ("POST", "/lora-adapters"): scale_adapters,
    },
    error,
)
