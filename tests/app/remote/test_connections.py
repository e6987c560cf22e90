"""Connections: what an address may be, where keys are, what servers tell of themselves."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.remote.connection import (
    Connection,
    ProbeServer,
    ServedModel,
    ServerAddress,
    ServerProbed,
    address_of,
)
from app.remote.keys import Keys, variable
from engine.errors import BadSetting
from engine.protocol import Failed, Loaded
from tests.app.remote.chat_server import ChatServer, Said, chat_server, page
from tests.app.remote.conftest import Asker, Ring, connection

KEY = "sk-secret-123"


@pytest.mark.parametrize(
    ("url", "api", "root"),
    [
        ("http://localhost:8085", "http://localhost:8085/v1", "http://localhost:8085"),
        ("http://localhost:8085/", "http://localhost:8085/v1", "http://localhost:8085"),
        ("https://a.example/v1/", "https://a.example/v1", "https://a.example"),
        ("https://a.example/x/openai", "https://a.example/x/openai", "https://a.example/x/openai"),
    ],
)
def test_where_the_interface_is(url: str, api: str, root: str) -> None:
    to = Connection("work", url)
    to.check()
    assert (to.api, to.root) == (api, root)


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"name": "two\nlines"},
        {"name": "x" * 61},
        {"url": "localhost:8085"},
        {"url": "file:///etc/passwd"},
        {"url": "http://"},
        {"url": "http://host:99999"},
        {"url": "http://me:secret@host"},
        {"url": "http://host/v1?key=secret"},
        {"headers": {"Authorization": "Bearer secret"}},
        {"headers": {"X-Team": "a\r\nHost: b"}},
        {"headers": {"Bad name": "x"}},
    ],
)
def test_what_cannot_be_an_address(fields: dict[str, Any]) -> None:
    with pytest.raises(BadSetting) as caught:
        Connection(**({"name": "work", "url": "http://localhost:1"} | fields)).check()
    assert "secret" not in str(caught.value)


@example("work", ".")
@given(st.text(min_size=1, max_size=60), st.text(min_size=1, max_size=80))
def test_an_address_is_a_path_and_back(name: str, model: str) -> None:
    address = ServerAddress(name, model)
    try:
        path = address.path
    except UnicodeEncodeError:  # half a character is in no name
        return
    assert address_of(path) == address_of(str(path)) == address


def test_files_are_no_addresses() -> None:
    for path in ("model.gguf", "/models/server:x/y.gguf", "server:", "a/server:b"):
        assert address_of(path) is None
    assert address_of(Path("server:work", "Qwen%2FQwen3")) == ("work", "Qwen/Qwen3")


@pytest.mark.parametrize(
    ("url", "shows"),
    [
        ("http://localhost:1", False),
        ("http://127.0.0.9:1", False),
        ("http://[::1]:1", False),
        ("https://host", False),
        ("http://host", True),
        ("http://192.168.1.7:8085", True),
        ("http://localhost.example", True),
    ],
)
def test_who_could_read_a_key(url: str, shows: bool) -> None:
    assert Connection("work", url).shows_key is shows


def test_a_key_is_for_its_address_alone(ring: Ring, monkeypatch: pytest.MonkeyPatch) -> None:
    keys, to = Keys(ring), Connection("my work", "https://a.example/v1")
    assert keys.keep(to, KEY) == ""
    assert Keys(ring).of(to) == KEY
    assert Keys(ring).of(Connection("my work", "https://b.example/v1")) == ""
    monkeypatch.setenv("CUTAWAY_KEY_MY_WORK", "other")
    assert (variable(to.name), keys.of(to)) == ("CUTAWAY_KEY_MY_WORK", "other")
    monkeypatch.delenv("CUTAWAY_KEY_MY_WORK")
    keys.forget(to)
    keys.forget(to)
    assert (keys.of(to), ring.kept) == ("", {})


def test_without_a_keyring_a_key_holds_for_this_run() -> None:
    class Broken:
        def get_password(self, service: str, name: str) -> str | None:
            raise RuntimeError("no backend")

        def set_password(self, service: str, name: str, key: str) -> None:
            raise RuntimeError("no backend")

        delete_password = get_password

    keys, to = Keys(Broken()), Connection("work", "https://a.example")
    assert "CUTAWAY_KEY_WORK" in keys.keep(to, KEY)
    assert keys.of(to) == KEY
    keys.forget(to)
    assert keys.of(to) == ""


def test_a_key_does_not_travel_in_clear_unasked(asker: Asker, server: ChatServer) -> None:
    """Nothing is connected to: the address is one that no test may reach."""
    to = Connection("far", "http://192.0.2.1:9")
    end = asker.ask(ProbeServer(0, to, KEY))
    assert isinstance(end, Failed)
    assert "unencrypted" in end.message


def test_a_redirect_carries_no_key_elsewhere(asker: Asker, server: ChatServer) -> None:
    with chat_server() as other:
        server.pages["/v1/models"] = Said(b"", 302, headers={"Location": f"{other.url}/v1/models"})
        end = asker.ask(ProbeServer(0, connection(server, headers={"X-Team": "a"}), KEY))
        assert isinstance(end, Failed)
        assert f"redirects to {other.url}" in end.message
        assert other.heard == []
    server.pages["/v1/models"] = Said(b"", 302, headers={"Location": "/moved"})
    server.pages["/moved"] = page({"data": []})
    assert isinstance(asker.ask(ProbeServer(0, connection(server), KEY)), ServerProbed)


def test_a_redirect_to_what_is_no_address(asker: Asker, server: ChatServer) -> None:
    for there in ("http://[::1/", "http://host:port/"):
        server.pages["/v1/models"] = Said(b"", 302, headers={"Location": there})
        end = asker.ask(ProbeServer(0, connection(server), KEY))
        assert isinstance(end, Failed)
        assert (end.kind, f"redirects to {there}" in end.message) == ("ServerFailed", True)


@pytest.mark.parametrize("url", ["http://[::1", "http://[", "http://a:b", "https://[x]/v1"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(BadSetting, match="address"):
        Connection("work", url).check()


def models(owner: str, **more: Any) -> Said:
    return page({"data": [{"id": "m", "owned_by": owner, **more}]})


PROPS = page(
    {
        "total_slots": 4,
        "default_generation_settings": {"n_ctx": 2048},
        "modalities": {"vision": True},
        "build_info": "b1",
    }
)
STUDIO = page({"data": [{"id": "m", "type": "vlm", "loaded_context_length": 512}]})
KINDS: dict[str, tuple[dict[str, Said], str, ServedModel]] = {
    "llama-server": (
        {"/v1/models": models("llamacpp"), "/props": PROPS},
        "llama-server",
        ServedModel("m", 2048, True),
    ),
    "Cutaway": (
        {"/v1/models": models("cutaway"), "/props": PROPS},
        "cutaway",
        ServedModel("m", 2048, True),
    ),
    "an old llama-server": (
        {"/v1/models": models("somebody"), "/props": PROPS},
        "llama-server",
        ServedModel("m", 2048, True),
    ),
    "vLLM": (
        {"/v1/models": models("vllm", max_model_len=4096), "/version": page({"version": "0.9"})},
        "vllm",
        ServedModel("m", 4096),
    ),
    "Ollama": (
        {"/v1/models": models("library"), "/api/version": page({"version": "0.20"})},
        "ollama",
        ServedModel("m"),
    ),
    "LM Studio": (
        {"/v1/models": models("organization_owner"), "/api/v0/models": STUDIO},
        "lm studio",
        ServedModel("m", 512, True),
    ),
    "SGLang": (
        {"/v1/models": models("x"), "/get_server_info": page({"version": "0.5"})},
        "sglang",
        ServedModel("m"),
    ),
    "another": ({"/v1/models": models("x")}, "openai", ServedModel("m")),
    "nonsense beside": (
        {
            "/v1/models": models("x", meta=[1], max_model_len="many"),
            "/props": page([1]),
            "/version": Said(b"<html>", kind="text/html"),
            "/api/version": page({"versions": {}}),
        },
        "openai",
        ServedModel("m"),
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_which_server_it_is(asker: Asker, server: ChatServer, name: str) -> None:
    pages, kind, model = KINDS[name]
    server.pages.update(pages)
    told = asker.ask(ProbeServer(0, connection(server)))
    assert isinstance(told, ServerProbed), told
    assert (told.kind, told.models) == (kind, [model])


def test_ollama_tells_more_of_the_model_that_is_opened(asker: Asker, server: ChatServer) -> None:
    server.pages.update(KINDS["Ollama"][0])
    info = {"model_info": {"llama.context_length": 8192}, "capabilities": ["completion"]}
    server.pages["/api/show"] = page(info)
    loaded = asker.open(server, "m")
    assert isinstance(loaded, Loaded)
    assert (loaded.n_ctx, loaded.vision, loaded.name) == (8192, None, "m")
    assert address_of(loaded.path) == ("work", "m")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (page({"error": {"message": "who?"}}, 401), "it requires a key"),
        (Said(b"<html></html>", kind="text/html"), "web page"),
        (page({"models": []}), "lists no models"),
        (page([]), "lists no models"),
        (Said(b"\xff\xfe", kind="application/json"), "its response is not valid JSON"),
        (Said(b"[" * 200_000, kind="application/json"), "its response is not valid JSON"),
    ],
)
def test_what_is_no_server(asker: Asker, server: ChatServer, said: Said, words: str) -> None:
    server.pages["/v1/models"] = said
    end = asker.open(server)
    assert isinstance(end, Failed)
    assert words in end.message


def test_a_model_that_is_not_there(asker: Asker, server: ChatServer) -> None:
    end = asker.open(server, "other")
    assert isinstance(end, Failed)
    assert "it has no model 'other'; it has 'tiny'" in end.message


def test_a_probe_ends_whatever_hangs(
    asker: Asker, server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.remote.link.PROBE_SECONDS", 0.1)
    server.pages["/v1/models"] = Said([b"{"], kind="application/json", hangs=True)
    end = asker.ask(ProbeServer(0, connection(server)))
    assert isinstance(end, Failed)
    assert "took too long" in end.message


def test_certificates_are_files(asker: Asker, server: ChatServer, tmp_path: Path) -> None:
    end = asker.open(server, ca=str(tmp_path / "none.pem"))
    assert isinstance(end, Failed)
    assert "not a file of certificates" in end.message


def test_encryption_where_there_is_none(asker: Asker, server: ChatServer) -> None:
    to = Connection("work", server.url.replace("http:", "https:"))
    end = asker.ask(ProbeServer(0, to))
    assert isinstance(end, Failed)
    assert "try http://" in end.message


def test_a_certificate_that_nobody_trusts(asker: Asker, server: ChatServer, tmp_path: Path) -> None:
    """Until the person names it as one to trust."""
    made, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-out", str(made)),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key)),
        ],
        check=True,
        capture_output=True,
    )
    with chat_server(certificate=(made, key)) as safe:
        end = asker.open(safe)
        assert isinstance(end, Failed)
        assert "its certificate is not trusted" in end.message
        assert isinstance(asker.open(safe, ca=str(made)), Loaded)
