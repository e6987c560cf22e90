"""Twenty behaviours of the `ollama` package, unmodified, against a real server."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from tests.app.serve.running import Served
from tests.line.later import Later

if TYPE_CHECKING:
    import ollama
else:
    ollama = Later("ollama")

CHAT = [{"role": "user", "content": "the hat on"}]
FEW = {"num_predict": 6, "temperature": 0}


@pytest.fixture(scope="module")
def client(tiny: Served) -> ollama.Client:
    return ollama.Client(host=tiny.url)


def chats(client: ollama.Client) -> None:
    told = client.chat(model="tiny", messages=CHAT, options=FEW)
    assert told.message.content
    assert told.message.role == "assistant"
    assert told.done


def streams_a_chat(client: ollama.Client) -> None:
    lines = list(client.chat(model="tiny", messages=CHAT, options=FEW, stream=True))
    whole = client.chat(model="tiny", messages=CHAT, options=FEW)
    assert "".join(line.message.content for line in lines) == whole.message.content
    assert [line.done for line in lines] == [False] * (len(lines) - 1) + [True]


def counts_and_times(client: ollama.Client) -> None:
    told = client.chat(model="tiny", messages=CHAT, options=FEW)
    assert told.eval_count == 6
    assert told.prompt_eval_count > 3
    assert told.total_duration > told.eval_duration > 0
    assert told.done_reason == "length"


def generates(client: ollama.Client) -> None:
    told = client.generate(model="tiny", prompt="the hat on", options=FEW)
    chat = client.chat(model="tiny", messages=CHAT, options=FEW)
    assert told.response == chat.message.content


def streams_what_it_generates(client: ollama.Client) -> None:
    lines = list(client.generate(model="tiny", prompt="the hat on", options=FEW, stream=True))
    whole = client.generate(model="tiny", prompt="the hat on", options=FEW)
    assert "".join(line.response for line in lines) == whole.response


def generates_from_a_raw_prompt(client: ollama.Client) -> None:
    raw = client.generate(model="tiny", prompt="the hat on", raw=True, options=FEW)
    told = client.generate(model="tiny", prompt="the hat on", options=FEW)
    assert raw.prompt_eval_count < told.prompt_eval_count


def takes_a_system_text(client: ollama.Client) -> None:
    told = client.generate(model="tiny", prompt="on", system="be brief", options=FEW)
    plain = client.generate(model="tiny", prompt="on", options=FEW)
    assert told.prompt_eval_count > plain.prompt_eval_count


def stops_at_a_text(client: ollama.Client) -> None:
    whole = client.chat(model="tiny", messages=CHAT, options=FEW).message.content
    told = client.chat(model="tiny", messages=CHAT, options=FEW | {"stop": [whole[2:4]]})
    assert told.message.content == whole[: whole.index(whole[2:4])]
    assert told.done_reason == "stop"


def repeats_by_a_seed(client: ollama.Client) -> None:
    hot = {"num_predict": 6, "temperature": 1.5, "seed": 4}
    first, second = (client.chat(model="tiny", messages=CHAT, options=hot) for _ in range(2))
    assert first.message.content == second.message.content


def asks_for_log_probabilities(client: ollama.Client) -> None:
    told = client.chat(model="tiny", messages=CHAT, options=FEW, logprobs=True, top_logprobs=2)
    assert len(told.logprobs) == 6
    assert [len(one.top_logprobs) for one in told.logprobs] == [2] * 6


def lists_models(client: ollama.Client) -> None:
    (model,) = client.list().models
    assert model.model == "tiny"
    assert model.details.format == "gguf"


def tells_what_runs(client: ollama.Client) -> None:
    (model,) = client.ps().models
    assert model.context_length == 256


def shows_a_model(client: ollama.Client) -> None:
    told = client.show("tiny")
    assert told.modelinfo["general.architecture"] == "llama"
    assert "completion" in told.capabilities


def embeds_texts(client: ollama.Client) -> None:
    told = client.embed(model="tiny", input=["the hat on", "and"])
    assert len(told.embeddings) == 2
    assert sum(x * x for x in told.embeddings[0]) == pytest.approx(1, abs=1e-5)
    old = client.embeddings(model="tiny", prompt="and")
    assert list(old.embedding) == pytest.approx(list(told.embeddings[1]), abs=1e-6)
    cut = client.embed(model="tiny", input="and", dimensions=8)
    assert len(cut.embeddings[0]) == 8


def asks_whether_a_model_is_there(client: ollama.Client) -> None:
    assert client.generate(model="tiny").done_reason == "load"
    assert client.chat(model="tiny:latest").done


def hears_of_a_model_that_is_not_here(client: ollama.Client) -> None:
    for stream in (False, True):
        with pytest.raises(ollama.ResponseError, match="not available") as missing:
            list(client.chat(model="llama9", messages=CHAT, stream=stream))
        assert missing.value.status_code == 404


def hears_that_a_context_is_too_large(client: ollama.Client) -> None:
    for n_ctx in (128, 32768):  # programs ask for what they might need
        assert client.chat(model="tiny", messages=CHAT, options=FEW | {"num_ctx": n_ctx}).done
    long = [{"role": "user", "content": "hat " * 400}]
    with pytest.raises(ollama.ResponseError, match=r"prompt is too long: \d+ tokens > 256 maximum"):
        client.chat(model="tiny", messages=long)


def cannot_change_what_there_is(client: ollama.Client) -> None:
    for change in (
        lambda: client.pull("llama3"),
        lambda: client.push("tiny"),
        lambda: client.copy("tiny", "other"),
        lambda: client.delete("tiny"),
        lambda: client.create("other", from_="tiny"),
    ):
        with pytest.raises(ollama.ResponseError) as refused:
            change()
        assert refused.value.status_code == 501


def shows_a_picture_to_a_model_that_reads_text(client: ollama.Client) -> None:
    file = io.BytesIO()
    Image.new("RGB", (4, 4)).save(file, "PNG")
    messages = [{"role": "user", "content": "what?", "images": [file.getvalue()]}]
    with pytest.raises(ollama.ResponseError, match="reads text only"):
        client.chat(model="tiny", messages=messages)


def asks_several_at_once_and_leaves(client: ollama.Client) -> None:
    async def ask(other: ollama.AsyncClient, number: int) -> int:
        n = 0
        options = {"num_predict": 60, "temperature": 0}
        async for _ in await other.chat(model="tiny", messages=CHAT, options=options, stream=True):
            n += 1
            if number % 2 and n == 3:
                break
        return n

    async def all_of_them() -> list[int]:
        async with ollama.AsyncClient(host=str(client._client.base_url)) as other:
            return await asyncio.gather(*(ask(other, number) for number in range(6)))

    counts = asyncio.run(all_of_them())
    assert counts[1::2] == [3, 3, 3]
    assert min(counts[0::2]) > 3


BEHAVIOURS: list[Callable[[ollama.Client], None]] = [
    chats,
    streams_a_chat,
    counts_and_times,
    generates,
    streams_what_it_generates,
    generates_from_a_raw_prompt,
    takes_a_system_text,
    stops_at_a_text,
    repeats_by_a_seed,
    asks_for_log_probabilities,
    lists_models,
    tells_what_runs,
    shows_a_model,
    embeds_texts,
    asks_whether_a_model_is_there,
    hears_of_a_model_that_is_not_here,
    hears_that_a_context_is_too_large,
    cannot_change_what_there_is,
    shows_a_picture_to_a_model_that_reads_text,
    asks_several_at_once_and_leaves,
]


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda one: one.__name__)
def test_it(client: ollama.Client, behaviour: Callable[[ollama.Client], None]) -> None:
    behaviour(client)


def test_there_are_twenty() -> None:
    assert len(BEHAVIOURS) == 20
