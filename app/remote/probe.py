"""Which server answers, what models it has, and what each can do, as far as it says.

Servers are distinguished by what they serve beside the OpenAI interface: llama-server and Cutaway
`/props`, vLLM `/version`, Ollama `/api/version`, LM Studio `/api/v0/models`, SGLang
`/get_server_info`.
"""

import asyncio
from dataclasses import dataclass
from time import monotonic
from typing import Any

from app.remote.connection import ServedModel, ServerKind
from app.remote.link import ServerLink
from app.remote.problems import ServerFailed, quoted

MOST_MODELS = 1000
OWNERS: dict[str, ServerKind] = {
    "cutaway": "cutaway",
    "llamacpp": "llama-server",
    "vllm": "vllm",
    "sglang": "sglang",
    "library": "ollama",
    "organization_owner": "lm studio",
}
"""`owned_by` of their models."""


@dataclass(frozen=True)
class ServerFacts:
    """A server's description of itself."""

    kind: ServerKind
    version: str
    models: list[ServedModel]
    seconds: float


async def probe(link: ServerLink) -> ServerFacts:
    """Ask a server what it is. Raises ServerFailed where its list of models cannot be had."""
    began = monotonic()
    listed = _dict(await link.get(f"{link.to.api}/models"))
    seconds = monotonic() - began
    rows = [row for row in _list(listed.get("data")) if isinstance(row, dict) and row.get("id")]
    if "data" not in listed:
        raise ServerFailed(link.to.name, "it responds, but lists no models: /models has no data")
    kind = next((OWNERS[o] for row in rows if (o := str(row.get("owned_by"))) in OWNERS), None)
    kind, version, answers = await _probe_itself(link, kind)
    models = [_model(row, kind, answers, only=len(rows) == 1) for row in rows[:MOST_MODELS]]
    return ServerFacts(kind, version, models, seconds)


async def probe_model(link: ServerLink, facts: ServerFacts, model: ServedModel) -> ServedModel:
    """Request the facts that need one request per model: Ollama's context and pictures."""
    if facts.kind != "ollama":
        return model
    shown = _dict(await _maybe(link, f"{link.to.root}/api/show", {"model": model.id}))
    info = _dict(shown.get("model_info"))
    lengths = [_count(value) for key, value in info.items() if key.endswith(".context_length")]
    can = _list(shown.get("capabilities"))
    sees, writes = ("vision" in can, "completion" in can) if can else (model.sees, True)
    n_ctx = model.n_ctx or next(filter(None, lengths), None)
    return ServedModel(model.id, n_ctx, sees, writes)


async def _probe_itself(
    link: ServerLink, kind: ServerKind | None
) -> tuple[ServerKind, str, dict[str, Any]]:
    """Kind, version, and the content of its own interface."""
    root = link.to.root
    questions: dict[ServerKind, str] = {
        "llama-server": f"{root}/props",
        "vllm": f"{root}/version",
        "ollama": f"{root}/api/version",
        "lm studio": f"{root}/api/v0/models",
        "sglang": f"{root}/get_server_info",
    }
    urls = {
        name: url
        for name, url in questions.items()
        if kind in (None, name) or (kind == "cutaway" and name == "llama-server")
    }
    answers = await asyncio.gather(*(_maybe(link, url) for url in urls.values()))
    found = {name: _dict(a) for name, a in zip(urls, answers, strict=True)}
    props = found.get("llama-server", {})
    if "total_slots" in props:
        version = quoted(props.get("build_info", "")).removeprefix("cutaway").strip()
        return kind or "llama-server", version, props
    if "data" in found.get("lm studio", {}):
        return "lm studio", "", found["lm studio"]
    for name in ("sglang", "ollama", "vllm"):
        if "version" in found.get(name, {}):
            return name, quoted(found[name]["version"]), {}
    return kind or "openai", "", {}


def _model(
    row: dict[str, Any], kind: ServerKind, answers: dict[str, Any], only: bool
) -> ServedModel:
    """A model of the list, with what the server's own interface adds: that of llama-server
    and Cutaway is about the open one, which alone has `meta` where it is not the `only` one.
    """
    meta = _dict(row.get("meta"))
    n_ctx = _count(meta.get("n_ctx")) or _count(row.get("max_model_len"))
    sees, writes = None, True
    if kind in ("llama-server", "cutaway") and (meta or only):
        settings = _dict(answers.get("default_generation_settings"))
        n_ctx = _count(settings.get("n_ctx")) or n_ctx
        sees = _dict(answers.get("modalities")).get("vision")
    if kind == "lm studio":
        own = next(
            (m for m in map(_dict, _list(answers.get("data"))) if m.get("id") == row["id"]), {}
        )
        n_ctx = _count(own.get("loaded_context_length")) or _count(own.get("max_context_length"))
        sees, writes = own.get("type") == "vlm", own.get("type") != "embeddings"
    return ServedModel(str(row["id"]), n_ctx, sees if isinstance(sees, bool) else None, writes)


async def _maybe(link: ServerLink, url: str, body: Any = None) -> Any:
    """Return a response's JSON, or None after an error."""
    try:
        return await link.get(url, body)
    except ServerFailed:
        return None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 < value < 1 << 31 else None
