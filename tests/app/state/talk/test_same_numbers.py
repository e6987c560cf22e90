"""The window and the server draw from the same numbers, wherever they come from."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gguf
import pytest

from app.local_engine import LocalEngine
from app.serve.clients import RequestBegan, ServedEvent
from app.state.presets import OwnSampling
from app.state.workbench import Workbench
from engine.settings import EngineOptions
from tests.app.serve.running import served
from tests.app.state.conftest import Until
from tests.goldens.tiny import write_tiny

NAMES = {
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "repeat_penalty": "repeat_penalty",
    "repeat_last_n": "penalty_last_n",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
}
"""The fields of `/props`, and ours."""
HOST = EngineOptions(device="host", ctx=256)
TYPES = gguf.GGUFValueType
KEYS = {
    "general.sampling.temp": (0.35, TYPES.FLOAT32),
    "general.sampling.top_k": (17, TYPES.INT32),
    "general.sampling.penalty_repeat": (1.25, TYPES.FLOAT32),
}
CONFIG = {"temperature": 0.45, "top_p": 0.71, "repetition_penalty": 1.05, "do_sample": True}
PARAMS = {"temperature": 0.15, "top_k": 9, "min_p": 0.02, "repeat_penalty": 1.3}


@pytest.fixture(autouse=True)
def loopback(
    refused: Path, own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This machine may be connected to; nothing is saved for a model."""
    monkeypatch.setenv("CUTAWAY_TEST_HOSTS", "127.0.0.1 localhost ::1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))


@pytest.fixture
def bench(qapp: object, own_home: Path) -> Iterator[Workbench]:
    """All state of a window, kept where the server looks for what was saved, too."""
    engine = LocalEngine()
    bench = Workbench(engine)
    yield bench
    bench.close()
    engine.close()


def keys_of_the_file(folder: Path) -> Path:
    return write_tiny(folder / "tiny.gguf", "llama", metadata=KEYS)


def generation_config(folder: Path) -> Path:
    (folder / "generation_config.json").write_text(json.dumps(CONFIG))
    return write_tiny(folder / "tiny.gguf", "llama")


def ollama(folder: Path) -> Path:
    digest, other = "cd" * 32, "70" * 32
    blobs = folder / "blobs"
    blobs.mkdir()
    (blobs / f"sha256-{other}").write_text(json.dumps(PARAMS))
    kind = "application/vnd.ollama.image."
    layers = [
        {"mediaType": f"{kind}model", "digest": f"sha256:{digest}"},
        {"mediaType": f"{kind}params", "digest": f"sha256:{other}"},
    ]
    manifest = folder / "manifests" / "registry.ollama.ai" / "library" / "tiny" / "latest"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(json.dumps({"layers": layers}))
    return write_tiny(blobs / f"sha256-{digest}", "llama")


def table(folder: Path) -> Path:
    name = {"general.name": ("SmolLM2 135M Instruct", TYPES.STRING)}
    return write_tiny(folder / "tiny.gguf", "llama", metadata=name)


def nothing(folder: Path) -> Path:
    return write_tiny(folder / "tiny.gguf", "llama")


PLACES: list[tuple[Callable[[Path], Path], dict[str, Any], str]] = [
    (keys_of_the_file, {"temperature": 0.35, "top_k": 17, "repeat_penalty": 1.25}, "file"),
    (
        generation_config,
        {"temperature": 0.45, "top_p": 0.71, "repeat_penalty": 1.05},
        "generation_config",
    ),
    (ollama, {"temperature": 0.15, "top_k": 9, "min_p": 0.02, "repeat_penalty": 1.3}, "ollama"),
    (table, {"temperature": 0.2, "top_p": 0.9, "repeat_penalty": 1.1}, "curated"),
    (nothing, {"temperature": 0.8}, "program"),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("write", "wanted", "origin"), PLACES, ids=[p[2] for p in PLACES])
def test_the_window_and_the_server(
    write: Callable[[Path], Path],
    wanted: dict[str, Any],
    origin: str,
    tmp_path: Path,
    bench: Workbench,
    until: Until,
) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    path = write(folder)
    heard: list[ServedEvent] = []
    question = {"messages": [{"role": "user", "content": "the hat"}], "max_tokens": 1}
    with served(path) as server:
        stated = server.get("/props").json()["default_generation_settings"]["params"]
        server.serving.clients.listen(heard.append)
        for interface in ("/v1/chat/completions", "/v1/messages", "/api/chat"):
            more = {"stream": False, "model": "tiny"}
            assert server.post(interface, question | more).status_code == 200
    answers = [event.request.sampling for event in heard if isinstance(event, RequestBegan)]
    assert {field: pytest.approx(stated[field]) for field in wanted} == wanted
    bench.open_model(path, HOST)
    until(lambda: bench.session.status == "ready")
    drawn = bench.chat.details.drawn
    for field, ours in NAMES.items():
        assert stated[field] == getattr(drawn.sampling, ours), field
        used = {getattr(sampling, ours) for sampling in answers}
        assert (len(answers), used) == (3, {stated[field]}), field
    assert drawn.origins["temperature"] == origin


def test_what_was_saved_for_the_model(tmp_path: Path, bench: Workbench, until: Until) -> None:
    """The window saves it; the server reads the same file of preferences."""
    path = nothing(tmp_path)
    bench.open_model(path, HOST)
    until(lambda: bench.session.status == "ready")
    bench.chat.details.set_sampling(OwnSampling(temperature=0.65, top_k=5))
    bench.chat.details.save_for_model()
    drawn = bench.chat.details.drawn
    assert (drawn.sampling.temperature, drawn.origins["temperature"]) == (0.65, "saved")
    bench.preferences.save()
    with served(path) as server:
        stated = server.get("/props").json()["default_generation_settings"]["params"]
    assert (stated["temperature"], stated["top_k"]) == (0.65, 5)
