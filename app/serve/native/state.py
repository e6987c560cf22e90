"""How the server is: GET /health, /metrics, /props and /slots."""

from typing import Any

from app.serve.web.refusal import Refusal, unavailable
from app.serve.web.site import HttpCall
from app.serve.web.stream import Reply, Whole, json

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


async def health(call: HttpCall) -> Reply:
    """Whether a model can be asked."""
    shelf = call.desk.shelf
    assert shelf.ready  # or it refuses
    return json({"status": "ok"})


async def metrics(call: HttpCall) -> Reply:
    """All counts, for Prometheus."""
    if not call.desk.settings.metrics:
        raise Refusal(404, "metrics are told by a server that was started with --metrics")
    gate = call.gate
    text = gate.counts.text(gate.busy, gate.waiting, None)
    return Whole(text.encode(), PROMETHEUS)


async def props(call: HttpCall) -> Reply:
    """What is served, as llama-server tells it."""
    model = call.desk.shelf.ready
    loaded = model.loaded
    return json(
        {
            "total_slots": call.gate.slots,
            "default_generation_settings": {"n_ctx": loaded.n_ctx},
            "model_alias": model.name,
            "model_path": _file_name(loaded.path),
            "chat_template": model.meta("tokenizer.chat_template"),
            "modalities": {"vision": loaded.vision is not None, "audio": False},
            "build_info": f"cutaway {loaded.architecture}",
        }
    )


async def slots(call: HttpCall) -> Reply:
    """Who is answered now, without a word of what is asked; 503 where one was asked for."""
    gate = call.gate
    n_ctx = call.desk.shelf.ready.loaded.n_ctx
    if call.query.get("fail_on_no_slot") == "1" and gate.busy >= gate.slots:
        raise unavailable("no slot is free")
    rows: list[dict[str, Any]] = [
        {"id": i, "n_ctx": n_ctx, "is_processing": i < gate.busy} for i in range(gate.slots)
    ]
    return json(rows)


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]
