"""OpenAI's interface: chat completions, completions, embeddings, models and responses."""

from typing import Any

from app.serve.openai.chat import chat
from app.serve.openai.completions import completions
from app.serve.openai.embeddings import embeddings
from app.serve.openai.responses import responses
from app.serve.served import OpenModel, no_model, plain
from app.serve.web.refusal import error
from app.serve.web.site import Dialect, HttpCall, with_and_without
from app.serve.web.stream import Reply, json


async def models(call: HttpCall) -> Reply:
    """List the available models."""
    model = call.desk.shelf.ready
    rows = [described(model, name, call.gate.turns.slots) for name in model.names]
    rows += [_known(name, model.created) for name in call.desk.shelf.others]
    ends = {"has_more": False, "first_id": rows[0]["id"], "last_id": rows[-1]["id"]}
    return json({"object": "list", "data": rows} | ends)


async def model(call: HttpCall) -> Reply:
    """One of them."""
    found, name = call.desk.shelf.ready, call.parts["name"]
    for one in found.names:
        if plain(one) == plain(name):
            return json(described(found, one, call.gate.turns.slots))
    for one in call.desk.shelf.others:
        if plain(one) == plain(name):
            return json(_known(one, found.created))
    raise no_model(name, [*found.names, *call.desk.shelf.others])


def described(model: OpenModel, name: str, slots: int) -> dict[str, Any]:
    """A model by one of its names."""
    loaded, file = model.loaded, model.file
    meta: dict[str, Any] = {
        "n_ctx": loaded.n_ctx,
        "n_ctx_train": loaded.n_ctx_train,
        "n_vocab": loaded.n_vocab,
    }
    if file is not None:
        meta |= {"n_params": file.parameters, "size": file.size}
    known = _known(name, model.created) | {"display_name": loaded.name}
    known["capabilities"] = model.can
    return known | {"max_model_len": loaded.n_ctx, "n_parallel": slots, "meta": meta}


def _known(name: str, created: int) -> dict[str, Any]:
    """A model that need not be open."""
    return {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": "cutaway",
        "type": "model",
        "display_name": name,
        "created_at": _moment(created),
    }


def _moment(seconds: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


OPENAI = Dialect(
    with_and_without(
        "/v1",
        {
            ("POST", "/v1/chat/completions"): chat,
            ("POST", "/v1/completions"): completions,
            ("POST", "/v1/embeddings"): embeddings,
            ("POST", "/v1/responses"): responses,
            ("GET", "/v1/models"): models,
            ("GET", "/v1/models/{name:path}"): model,
        },
    ),
    error,
)
