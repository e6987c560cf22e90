"""Several models, of which one is open: `model` picks, and nobody is answered by another."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from app.local_engine import LocalEngine
from app.serve.keeper import Keeper
from app.serve.server import Serving
from app.serve.settings import ServeSettings
from engine.runner import load
from tests.app.serve.running import HOST, HTTP

ASK = {"prompt": "the hat on", "max_tokens": 6, "temperature": 0}


@pytest.fixture(scope="module")
def url(
    tiny_path: Path, tiny_base_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A server of three models, the last of which cannot be opened."""
    broken = tmp_path_factory.mktemp("broken") / "broken.gguf"
    broken.write_bytes(b"GGUF and no more")
    paths = {"tiny": tiny_path, "base": tiny_base_path, "broken": broken}
    engine = LocalEngine()
    serving = Serving(engine, ServeSettings(port=0, slots=4, models=tuple(paths)))
    keeper = Keeper(engine, serving, paths, HOST)
    serving.start()
    keeper.load(lambda progress: None, lambda: False)
    stopped = threading.Event()
    keeping = threading.Thread(target=keeper.keep, args=(lambda text: None, stopped.is_set))
    keeping.start()
    yield serving.address
    stopped.set()
    keeping.join()
    serving.stop(0)
    keeper.close()
    engine.close()


@pytest.fixture(scope="module")
def said(tiny_path: Path, tiny_base_path: Path) -> dict[str, str]:
    """What each says by itself."""
    texts = {}
    for name, path in (("tiny", tiny_path), ("base", tiny_base_path)):
        with load(path, device="host", ctx=256) as model:
            from engine.protocol import Sampling

            pieces = model.generate("the hat on", sampling=Sampling(temperature=0), max_tokens=6)
            texts[name] = "".join(pieces)
    return texts


def ask(url: str, name: str) -> httpx2.Response:
    return HTTP.post(f"{url}/v1/completions", json=ASK | {"model": name})


def test_each_is_listed(url: str) -> None:
    listed = HTTP.get(f"{url}/v1/models").json()["data"]
    assert {row["id"] for row in listed} == {"tiny", "base", "broken"}
    assert ask(url, "other").status_code == 404


def test_each_answers_by_its_name(url: str, said: dict[str, str]) -> None:
    assert said["tiny"] != said["base"]
    for name in ("base", "tiny", "base"):
        answer = ask(url, name).json()
        assert (answer["model"], answer["choices"][0]["text"]) == (name, said[name])


def test_all_at_once_get_their_own(url: str, said: dict[str, str]) -> None:
    names = ["tiny", "base"] * 4
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda name: ask(url, name), names))
    for name, answer in zip(names, answers, strict=True):
        assert answer.status_code == 200, answer.text
        assert answer.json()["choices"][0]["text"] == said[name]


def test_one_that_cannot_be_opened_leaves_the_others(url: str, said: dict[str, str]) -> None:
    for _ in range(2):
        refused = ask(url, "broken")
        assert refused.status_code == 503
        assert "could not be opened" in refused.json()["error"]["message"]
        assert "/" not in refused.json()["error"]["message"]
    assert ask(url, "tiny").json()["choices"][0]["text"] == said["tiny"]
