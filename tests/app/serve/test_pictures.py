"""Pictures shown to a model that sees, in each API's way; fetched only where it was allowed."""

import asyncio
import base64
import io
from collections.abc import Iterator

import pytest
from PIL import Image, ImageDraw

from app.library import resolve
from app.serve import fetching
from app.serve.web.refusal import Refusal
from engine.settings import EngineOptions
from tests.app.serve.running import Served, served

QUESTION = "What is in the picture?"


@pytest.fixture(scope="module")
def seeing() -> Iterator[Served]:
    """The model that comes along, which knows drawn shapes."""
    with served(resolve("shapes"), EngineOptions(device="host")) as running:
        yield running


def circle(colour: str) -> str:
    image = Image.new("RGB", (96, 96), "white")
    ImageDraw.Draw(image).ellipse((16, 16, 80, 80), fill=colour)
    file = io.BytesIO()
    image.save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def test_each_api_shows_the_same_picture(seeing: Served) -> None:
    data = circle("red")
    parts = [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
        {"type": "text", "text": QUESTION},
    ]
    body = {"messages": [{"role": "user", "content": parts}], "temperature": 0}
    openai = seeing.post("/v1/chat/completions", body).json()
    said = openai["choices"][0]["message"]["content"]
    assert "red" in said
    assert "circle" in said
    source = {"type": "base64", "media_type": "image/png", "data": data}
    blocks = [{"type": "image", "source": source}, {"type": "text", "text": QUESTION}]
    body = {"model": "tiny", "max_tokens": 99, "temperature": 0}
    told = seeing.post("/v1/messages", body | {"messages": [{"role": "user", "content": blocks}]})
    assert told.json()["content"][0]["text"] == said
    message = {"role": "user", "content": QUESTION, "images": [data]}
    body = {"model": "tiny", "messages": [message], "stream": False, "options": {"temperature": 0}}
    assert seeing.post("/api/chat", body).json()["message"]["content"] == said
    items = [
        {
            "role": "user",
            "content": [
                {"type": "input_image", "image_url": f"data:image/png;base64,{data}"},
                {"type": "input_text", "text": QUESTION},
            ],
        }
    ]
    told = seeing.post("/v1/responses", {"input": items, "temperature": 0})
    assert told.json()["output"][0]["content"][0]["text"] == said


def test_what_is_no_picture(seeing: Served) -> None:
    for data in ("aGVsbG8=", "", "%%%"):
        part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
        body = {"messages": [{"role": "user", "content": [part]}]}
        answer = seeing.post("/v1/chat/completions", body)
        assert answer.status_code == 400, answer.text
        assert "/" not in answer.json()["error"]["message"].replace("data:image/", "")


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "169.254.169.254", "10.0.0.1", "192.168.1.1", "0.0.0.0", "100.64.0.1", "::1",
     "fe80::1%eth0", "::ffff:127.0.0.1", "2002:7f00:1::", "64:ff9b::a9fe:a9fe", "fd00::1",
     "224.0.0.1", "255.255.255.255", "::"],
)  # fmt: skip
def test_addresses_that_are_not_of_the_net(address: str) -> None:
    assert not fetching.is_of_the_net(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "2606:4700::1111", "::ffff:1.1.1.1"])
def test_addresses_of_the_net(address: str) -> None:
    assert fetching.is_of_the_net(address)


@pytest.mark.parametrize(
    "url",
    ["http://ok.example/x", "https://evil.example/x", "https://ok.example.evil.example/",
     "https://ok.example@evil.example/", "https://127.0.0.1/", "file:///etc/passwd", "https://"],
)  # fmt: skip
def test_only_hosts_that_were_named(url: str) -> None:
    with pytest.raises(Refusal, match="only") as refused:
        asyncio.run(fetching.fetched(url, ("ok.example",), "x"))
    assert refused.value.param == "x"


def test_a_named_host_that_leads_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name may be asked, but means this machine: nothing is connected to."""

    async def home(*args: object, **options: object) -> list[tuple[object, ...]]:
        return [(2, 1, 6, "", ("127.0.0.1", 443))]

    async def ask() -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", home)
        await fetching.fetched("https://ok.example/x.png", ("ok.example",), None)

    def connected(*args: object, **options: object) -> None:
        raise AssertionError("it was connected to")

    monkeypatch.setattr(asyncio, "open_connection", connected)
    with pytest.raises(Refusal, match="private address"):
        asyncio.run(ask())
