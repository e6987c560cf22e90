"""Fields that requests for text share, with their ranges (OpenAI's, and llama-server's beside)."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct

from app.serve.chat_fields import bounded
from app.serve.web.body import NULL, raw_text
from app.serve.web.refusal import Refusal
from engine.protocol import AnswerForm, Edit, Grammar, JsonObject, JsonSchema, Speculation
from engine.settings import drafters

MOST_STOPS = 64  # editors send a dozen; OpenAI takes 4
Fraction = Annotated[float, Meta(ge=0, le=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Count = Annotated[int, Meta(ge=-1, le=(1 << 31) - 1)]


class StreamOptions(Struct):
    """The options of a stream."""

    include_usage: bool | None = None


class SchemaFormat(Struct):
    """A named schema."""

    schema: Raw = NULL
    name: str | None = None


class TextFormat(Struct, tag_field="type", tag="text"):
    """Any text."""


class ObjectFormat(Struct, tag_field="type", tag="json_object"):
    """A JSON object; llama-server's clients put a schema beside."""

    schema: Raw = NULL


class SchemaWanted(Struct, tag_field="type", tag="json_schema"):
    """JSON of a schema."""

    json_schema: SchemaFormat


ResponseFormat = TextFormat | ObjectFormat | SchemaWanted


class SpeculationField(Struct):
    """How tokens are guessed ahead; `type` as --spec-type takes it."""

    type: str = ""
    n_max: Count | None = None


class LoraField(Struct):
    """An adapter by its number, and its scale."""

    id: Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
    scale: float = 0.0


class TextRequest(Struct):
    """Fields that chat and plain completions have in common."""

    model: str | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Fraction | None = None
    top_k: Annotated[int, Meta(ge=-1, le=(1 << 31) - 1)] | None = None
    min_p: Fraction | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    repeat_penalty: Annotated[float, Meta(ge=0.01, le=100)] | None = None
    repeat_last_n: Count | None = None
    seed: int | None = None
    n: Annotated[int, Meta(ge=1, le=1024)] | None = None
    stop: str | list[str] | None = None
    logit_bias: dict[str, Annotated[float, Meta(ge=-100, le=100)] | Literal[False]] | None = None
    edits: list[Edit] | None = None
    ignore_eos: bool | None = None
    max_tokens: Count | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    response_format: ResponseFormat | None = None
    json_schema: Raw = NULL
    grammar: str | None = None
    speculative: SpeculationField | None = None
    lora: list[LoraField] | None = None


def lora(adapters: Sequence[LoraField] | None) -> dict[int, float] | None:
    """Scales of adapters by their numbers; those that are not named are off, as in llama-server."""
    return {one.id: one.scale for one in adapters} if adapters else None


def speculation(body: TextRequest) -> Speculation:
    """How tokens are guessed ahead for this request; as the server was started where it does not
    say. Raises `Refusal`.
    """
    wish = body.speculative or SpeculationField()
    try:
        drafters(wish.type or "auto")
    except ValueError as error:
        raise Refusal(400, f"speculative.type: expected {error}", param="speculative") from None
    return Speculation(wish.type, wish.n_max)


def sampling(body: TextRequest) -> dict[str, Any]:
    """The request's own values of `Sampling`; None where it has none."""
    return {
        "temperature": body.temperature,
        "top_k": None if body.top_k is None else max(0, body.top_k),
        "top_p": body.top_p,
        "min_p": body.min_p,
        "repeat_penalty": body.repeat_penalty,
        "frequency_penalty": body.frequency_penalty,
        "presence_penalty": body.presence_penalty,
        "penalty_last_n": body.repeat_last_n,
        "seed": seed(body.seed),
    }


def seed(value: int | None) -> int | None:
    """A seed; llama-server's clients mean "any" by -1."""
    if value is None or value == -1:
        return None
    if not -(1 << 63) <= value < 1 << 64:
        raise Refusal(400, "seed: expected a 64-bit integer", param="seed")
    return value % (1 << 64)


def stops(stop: str | list[str] | None) -> list[str]:
    """Texts that end an answer."""
    texts = [stop] if isinstance(stop, str) else stop or []
    if len(texts) > MOST_STOPS:
        raise Refusal(400, f"stop: expected at most {MOST_STOPS} strings", param="stop")
    return [text for text in texts if text]


def bias(weights: dict[str, Any] | None) -> dict[int, float]:
    """Parse `logit_bias`; `false` forbids one, as llama-server has it."""
    found: dict[int, float] = {}
    for key, value in (weights or {}).items():
        if not (key.isascii() and key.isdecimal() and len(key) < 10):
            text = f"logit_bias: {key[:50]!r} is not a token id"
            raise Refusal(400, text, param="logit_bias")
        found[int(key)] = -1e9 if value is False else float(value)
    return found


def form(body: TextRequest) -> AnswerForm | None:
    """Return the requested response format. Raises `Refusal`."""
    if body.grammar:
        return Grammar(bounded(body.grammar, "grammar"), "gbnf")
    if text := raw_text(body.json_schema):
        return schema(text, "json_schema")
    wanted = body.response_format
    if isinstance(wanted, ObjectFormat):
        inner = raw_text(wanted.schema)
        return JsonObject() if inner is None else schema(inner, "response_format")
    if isinstance(wanted, SchemaWanted):
        inner = raw_text(wanted.json_schema.schema)
        return JsonObject() if inner is None else schema(inner, "response_format")
    return None


def schema(text: str, param: str) -> JsonSchema:
    """A schema, which must be an object or a truth value. Raises `Refusal`."""
    if bounded(text, param).strip()[:1] not in ("{", "t", "f"):
        raise Refusal(400, f"{param}: a schema must be an object", param=param)
    return JsonSchema(text)


def limit(value: int | None, usual: int | None = None) -> int | None:
    """How many tokens at most: -1 is as many as fit."""
    if value is None:
        return usual
    return None if value < 0 else value


def n_choices(body: TextRequest, slots: int) -> int:
    """How many answers are wanted. Raises `Refusal`."""
    n = body.n or 1
    if n > slots:
        raise Refusal(400, f"n: at most {slots}, one for each slot (--parallel)", param="n")
    return n
