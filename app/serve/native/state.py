"""How the server is: GET /health, /metrics, /props and /slots."""

from typing import Any

from app.serve.served import OpenModel
from app.serve.web.refusal import Refusal, unavailable
from app.serve.web.site import HttpCall
from app.serve.web.stream import Reply, Whole, json
from engine.protocol import ListSlots

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


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
    """Who is answered now, without a word of what is asked; 503 where one was asked for."""
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
