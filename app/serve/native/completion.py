"""POST /completion, as llama-server answers it."""

from collections.abc import AsyncIterator
from typing import Any

from app.serve import asked
from app.serve.answers import all_of
from app.serve.told import timings
from app.serve.web.body import decoded
from app.serve.web.site import HttpCall
from app.serve.web.stream import FrameStream, Reply, error_event, event, json
from engine.protocol import Finished, Generate, Piece


class CompletionBody(asked.TextRequest):
    """A request; `n_predict` is llama-server's name of `max_tokens`."""

    prompt: str | list[int] = ""
    n_predict: asked.Count | None = None


async def completion(call: HttpCall) -> Reply:
    """Go on with one text."""
    body = decoded(call.body, CompletionBody)
    model = await call.model(body.model)
    text = isinstance(body.prompt, str)
    most = body.max_tokens if body.n_predict is None else body.n_predict
    request = Generate(
        0,
        prompt=body.prompt if isinstance(body.prompt, str) else None,
        prompt_tokens=None if isinstance(body.prompt, str) else body.prompt,
        sampling=call.sampling(asked.sampling(body), openai=True),
        max_tokens=asked.limit(most),
        stop=asked.stops(body.stop),
        form=asked.form(body),
        bias=asked.bias(body.logit_bias),
        endless=bool(body.ignore_eos),
        when_full="stop",
    )
    if body.stream:
        return FrameStream(_frames(call, request, model.name), error_event)
    (made,) = await all_of(call.answers([request]))
    told = _end(made.end, model.name, [token.token for token in made.tokens])
    prompt = {"prompt": body.prompt} if text else {}
    return json({"content": made.text} | told | prompt)


async def _frames(call: HttpCall, request: Generate, model: str) -> AsyncIterator[bytes]:
    async with call.answers([request]) as answers:
        while said := await answers.batch():
            frames = []
            for _, reply in said:
                if isinstance(reply, Piece) and (reply.text or reply.tokens):
                    ids = [token.token for token in reply.tokens]
                    told: dict[str, Any] = {"index": 0, "content": reply.text, "tokens": ids}
                    frames.append(event(told | {"stop": False}))
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
