"""Ollama's list of models; and embeddings."""

import hashlib
from datetime import UTC, datetime
from time import monotonic_ns
from typing import Annotated, Any

from msgspec import Meta, Struct

from app.serve.served import OpenModel
from app.serve.vectors import vectors
from app.serve.web.body import decoded
from app.serve.web.refusal import Refusal
from app.serve.web.site import HttpCall
from app.serve.web.stream import Reply, json
from app.version import version

FOREVER = "9999-12-31T23:59:59Z"


class ShowBody(Struct):
    """A model by its name, or by the older field's."""

    model: str = ""
    name: str = ""


class VectorsBody(Struct):
    """Texts; `prompt` is the one of the older path."""

    model: str
    input: str | list[str] = ""
    prompt: str = ""
    dimensions: Annotated[int, Meta(ge=1)] | None = None


async def version_of(call: HttpCall) -> Reply:
    """The program's version."""
    return json({"version": version()})


async def tags(call: HttpCall) -> Reply:
    """Models that a client can request."""
    model = call.desk.shelf.ready
    return json({"models": [_row(model, name) for name in model.names]})


async def running(call: HttpCall) -> Reply:
    """Models that are open."""
    model = call.desk.shelf.ready
    more = {"expires_at": FOREVER, "size_vram": 0, "context_length": model.loaded.n_ctx}
    return json({"models": [_row(model, name) | more for name in model.names]})


async def show(call: HttpCall) -> Reply:
    """Describe a model."""
    body = decoded(call.body, ShowBody)
    model = await call.model(body.model or body.name or None)
    loaded = model.loaded
    info: dict[str, Any] = {
        "general.architecture": loaded.architecture,
        f"{loaded.architecture}.context_length": loaded.n_ctx_train,
    }
    if model.file is not None:
        info["general.parameter_count"] = model.file.parameters
    can = model.can + (["vision"] if loaded.vision is not None else [])
    can += ["insert"] if loaded.fills else []
    template = model.meta("tokenizer.chat_template")
    can += ["tools"] if "tools" in template else []
    can += ["thinking"] if "enable_thinking" in template else []
    return json(
        {
            "modelfile": "",
            "parameters": f"num_ctx {loaded.n_ctx}",
            "template": template,
            "details": _details(model),
            "model_info": info,
            "capabilities": can,
            "modified_at": _moment(model),
        }
    )


async def embed(call: HttpCall) -> Reply:
    """Texts as vectors of length 1."""
    body = decoded(call.body, VectorsBody)
    await call.model(body.model)
    texts = [body.input] if isinstance(body.input, str) else body.input
    began = monotonic_ns()
    found, counts = await vectors(
        call, [t for t in texts if t] if texts == [""] else texts, body.dimensions
    )
    return json(
        {
            "model": body.model,
            "embeddings": found.tolist(),
            "total_duration": monotonic_ns() - began,
            "load_duration": 0,
            "prompt_eval_count": sum(counts),
        }
    )


async def embedding(call: HttpCall) -> Reply:
    """One text as a vector."""
    body = decoded(call.body, VectorsBody)
    await call.model(body.model)
    found, _ = await vectors(call, [body.prompt], None)
    return json({"embedding": found[0].tolist()})


async def refused(call: HttpCall) -> Reply:
    """Who starts the server chooses the model."""
    raise Refusal(501, "this server does not pull, create or delete models")


def _row(model: OpenModel, name: str) -> dict[str, Any]:
    size = model.file.size if model.file is not None else 0
    digest = hashlib.sha256(f"{model.name} {size}".encode()).hexdigest()
    return {
        "name": name,
        "model": name,
        "modified_at": _moment(model),
        "size": size,
        "digest": digest,
        "details": _details(model),
    }


def _details(model: OpenModel) -> dict[str, Any]:
    family, file = model.loaded.architecture, model.file
    kind = next(iter(file.types), "") if file is not None else ""
    return {
        "parent_model": "",
        "format": "gguf",
        "family": family,
        "families": [family],
        "parameter_size": f"{file.parameters / 1e6:.0f}M" if file is not None else "",
        "quantization_level": kind,
    }


def _moment(model: OpenModel) -> str:
    return datetime.fromtimestamp(model.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
