"""POST /v1/embeddings."""

import base64
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from app.serve.vectors import MOST_INPUTS, vectors
from app.serve.web.body import decoded
from app.serve.web.refusal import Refusal
from app.serve.web.site import HttpCall
from app.serve.web.stream import Reply, json
from engine.protocol import DecodeTokens

# LangChain cuts texts into OpenAI's tokens, which are others.
HINT = "; if these are tokens of another model (LangChain: check_embedding_ctx_length=False)"


class EmbedBody(Struct):
    """A request."""

    input: str | list[str | int | list[int]]
    model: str | None = None
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Meta(ge=1)] | None = None


async def embeddings(call: HttpCall) -> Reply:
    """Texts as vectors of length 1."""
    body = decoded(call.body, EmbedBody)
    model = await call.model(body.model)
    texts = await _texts(call, body.input)
    found, counts = await vectors(call, texts, body.dimensions)
    wrap = _base64 if body.encoding_format == "base64" else _numbers
    rows = [
        {"object": "embedding", "index": i, "embedding": wrap(row)} for i, row in enumerate(found)
    ]
    total = sum(counts)
    used = {"prompt_tokens": total, "total_tokens": total}
    return json({"object": "list", "data": rows, "model": model.name, "usage": used})


def _base64(row: Any) -> str:
    return base64.b64encode(row.astype("<f4").tobytes()).decode()


def _numbers(row: Any) -> Any:
    return row.tolist()


async def _texts(call: HttpCall, value: str | list[str | int | list[int]]) -> list[str]:
    if isinstance(value, str):
        return [value]
    if value and all(isinstance(one, int) for one in value):
        return [await _decoded(call, [one for one in value if isinstance(one, int)])]
    if not 1 <= len(value) <= MOST_INPUTS or any(isinstance(one, int) for one in value):
        text = f"input: a text, a list of tokens, or 1 to {MOST_INPUTS} of these"
        raise Refusal(400, text, param="input")
    return [
        one if isinstance(one, str) else await _decoded(call, one)
        for one in value
        if not isinstance(one, int)
    ]


async def _decoded(call: HttpCall, tokens: list[int]) -> str:
    try:
        return (await call.gate.get(DecodeTokens(0, tokens))).text
    except Refusal as refusal:
        if refusal.status == 400:
            raise Refusal(400, refusal.message + HINT, param="input") from None
        raise
