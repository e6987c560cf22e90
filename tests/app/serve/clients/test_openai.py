"""Twenty behaviours of the `openai` package, unmodified, against a real server.

Each is a function of the list: its name says what a person does with the package.
"""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from tests.app.serve.running import Served
from tests.line.later import Later

if TYPE_CHECKING:
    import openai
    from openai import OpenAI
else:
    openai = Later("openai")

CHAT = [{"role": "user", "content": "the hat on"}]
WEATHER = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}},
}


@pytest.fixture(scope="module")
def client(tiny: Served) -> OpenAI:
    return openai.OpenAI(base_url=f"{tiny.url}/v1", api_key="none", max_retries=0)


def lists_models(client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["tiny"]


def retrieves_a_model(client: OpenAI) -> None:
    assert client.models.retrieve("tiny").owned_by == "cutaway"
    with pytest.raises(openai.NotFoundError, match="not available"):
        client.models.retrieve("gpt-9")


def chats(client: OpenAI) -> None:
    told = client.chat.completions.create(model="tiny", messages=CHAT, max_tokens=5, temperature=0)
    assert told.choices[0].message.content
    assert told.choices[0].finish_reason == "length"
    assert told.usage.total_tokens == told.usage.prompt_tokens + 5


def streams_a_chat(client: OpenAI) -> None:
    whole = client.chat.completions.create(model="tiny", messages=CHAT, max_tokens=5, temperature=0)
    stream = client.chat.completions.create(
        model="tiny", messages=CHAT, max_tokens=5, temperature=0, stream=True
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == whole.choices[0].message.content
    assert chunks[-1].choices[0].finish_reason == "length"


def streams_usage(client: OpenAI) -> None:
    options = {"include_usage": True}
    *_, last = client.chat.completions.create(
        model="tiny",
        messages=CHAT,
        max_tokens=5,
        temperature=0,  # by chance an answer may end sooner
        stream=True,
        stream_options=options,
    )
    assert last.choices == []
    assert last.usage.completion_tokens == 5


def follows_events_by_the_helper(client: OpenAI) -> None:
    with client.chat.completions.stream(model="tiny", messages=CHAT, stop="zq", seed=1) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    assert {"chunk", "content.delta", "content.done"} <= kinds
    assert final.choices[0].finish_reason == "stop"


def asks_for_log_probabilities(client: OpenAI) -> None:
    told = client.chat.completions.create(
        model="tiny", messages=CHAT, max_tokens=3, temperature=0, logprobs=True, top_logprobs=4
    )
    tokens = told.choices[0].logprobs.content
    assert [len(token.top_logprobs) for token in tokens] == [4, 4, 4]
    assert all(isinstance(token.bytes, list) for token in tokens)


def asks_for_several_choices(client: OpenAI) -> None:
    told = client.chat.completions.create(
        model="tiny", messages=CHAT, max_tokens=6, n=3, seed=1, temperature=1.5
    )
    assert len({choice.message.content for choice in told.choices}) == 3


def repeats_by_a_seed(client: OpenAI) -> None:
    ask = {"model": "tiny", "messages": CHAT, "max_tokens": 6, "seed": 11, "temperature": 1.5}
    first, second = (client.chat.completions.create(**ask) for _ in range(2))
    assert first.choices[0].message.content == second.choices[0].message.content


def stops_at_a_text(client: OpenAI) -> None:
    whole = client.chat.completions.create(model="tiny", messages=CHAT, max_tokens=9, temperature=0)
    text = whole.choices[0].message.content
    told = client.chat.completions.create(
        model="tiny", messages=CHAT, max_tokens=9, temperature=0, stop=text[3:5]
    )
    assert told.choices[0].message.content == text[:3]
    assert told.choices[0].finish_reason == "stop"


def forbids_a_token(client: OpenAI) -> None:
    ask = {"model": "tiny", "messages": CHAT, "max_tokens": 1, "temperature": 0, "logprobs": True}
    first = client.chat.completions.create(**ask).choices[0].logprobs.content[0]
    number = client.post("/tokenize", body={"content": "x"}, cast_to=object)["tokens"][0]
    biased = client.chat.completions.create(**ask, logit_bias={str(number): 100})
    assert biased.choices[0].logprobs.content[0].token == "x" != first.token


def sends_a_whole_conversation(client: OpenAI) -> None:
    messages = [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "rain"},
        {"role": "user", "content": "and now?"},
    ]
    told = client.chat.completions.create(
        model="tiny", messages=messages, tools=[WEATHER], tool_choice="none", max_tokens=2
    )
    assert told.usage.prompt_tokens > 20


def completes_a_text(client: OpenAI) -> None:
    told = client.completions.create(model="tiny", prompt="the hat", max_tokens=4, temperature=0)
    echoed = client.completions.create(
        model="tiny", prompt="the hat", max_tokens=4, temperature=0, echo=True
    )
    assert echoed.choices[0].text == "the hat" + told.choices[0].text
    streamed = client.completions.create(
        model="tiny", prompt="the hat", max_tokens=4, temperature=0, stream=True
    )
    assert "".join(chunk.choices[0].text for chunk in streamed) == told.choices[0].text


def completes_several_prompts(client: OpenAI) -> None:
    told = client.completions.create(
        model="tiny", prompt=["the", "hat", "on"], n=2, max_tokens=3, temperature=0
    )
    assert [choice.index for choice in told.choices] == list(range(6))
    alone = client.completions.create(model="tiny", prompt="hat", max_tokens=3, temperature=0)
    assert told.choices[2].text == told.choices[3].text == alone.choices[0].text


def completes_tokens_with_their_probabilities(client: OpenAI) -> None:
    tokens = client.post("/tokenize", body={"content": "the hat"}, cast_to=object)["tokens"]
    told = client.completions.create(
        model="tiny", prompt=tokens, max_tokens=3, temperature=0, logprobs=2
    )
    found = told.choices[0].logprobs
    assert len(found.tokens) == len(found.token_logprobs) == len(found.text_offset) == 3
    assert [len(top) for top in found.top_logprobs] == [2, 2, 2]


def embeds_texts(client: OpenAI) -> None:
    texts = ["the hat on", "and"]
    packed = client.embeddings.create(model="tiny", input=texts)
    plain = client.embeddings.create(model="tiny", input=texts, encoding_format="float")
    for one, other in zip(packed.data, plain.data, strict=True):
        assert one.embedding == pytest.approx(other.embedding, abs=1e-6)
        assert sum(x * x for x in one.embedding) == pytest.approx(1, abs=1e-5)
    assert packed.usage.prompt_tokens > 3
    cut = client.embeddings.create(model="tiny", input=texts, dimensions=8)
    assert [len(row.embedding) for row in cut.data] == [8, 8]
    assert sum(x * x for x in cut.data[0].embedding) == pytest.approx(1, abs=1e-5)


def responds(client: OpenAI) -> None:
    told = client.responses.create(
        model="tiny", input="the hat on", max_output_tokens=5, temperature=0
    )
    assert told.output_text
    assert told.status == "incomplete"
    assert told.usage.output_tokens == 5
    items = [{"role": "user", "content": [{"type": "input_text", "text": "the hat on"}]}]
    stream = client.responses.create(
        model="tiny", input=items, max_output_tokens=5, temperature=0, stream=True
    )
    events = list(stream)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.incomplete",
    ]


def hears_of_errors(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="temperature") as refused:
        client.chat.completions.create(model="tiny", messages=CHAT, temperature=9)
    assert refused.value.param == "temperature"
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="gpt-9", messages=CHAT)
    assert missing.value.code == "model_not_found"
    long = [{"role": "user", "content": "hat " * 400}]
    with pytest.raises(openai.BadRequestError) as full:
        client.chat.completions.create(model="tiny", messages=long)
    assert full.value.code == "context_length_exceeded"


def shows_a_picture_to_a_model_that_reads_text(client: OpenAI) -> None:
    file = io.BytesIO()
    Image.new("RGB", (4, 4)).save(file, "PNG")
    url = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
    parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "what?"}]
    with pytest.raises(openai.BadRequestError, match="reads text only"):
        client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": parts}])
    parts[0]["image_url"]["url"] = "http://127.0.0.1/cat.png"
    with pytest.raises(openai.BadRequestError, match="not fetched"):
        client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": parts}])


def asks_several_at_once_and_leaves(client: OpenAI) -> None:
    async def ask(other: openai.AsyncOpenAI, number: int) -> int:
        stream = await other.chat.completions.create(
            model="tiny", messages=CHAT, max_tokens=60, seed=number, stream=True
        )
        n = 0
        async for _ in stream:
            n += 1
            if number % 2 and n == 3:
                await stream.close()
                break
        return n

    async def all_of_them() -> list[int]:
        other = openai.AsyncOpenAI(base_url=client.base_url, api_key="none", max_retries=0)
        async with other:
            return await asyncio.gather(*(ask(other, number) for number in range(6)))

    counts = asyncio.run(all_of_them())
    assert counts[1::2] == [3, 3, 3]
    assert min(counts[0::2]) > 3


BEHAVIOURS: list[Callable[[OpenAI], None]] = [
    lists_models,
    retrieves_a_model,
    chats,
    streams_a_chat,
    streams_usage,
    follows_events_by_the_helper,
    asks_for_log_probabilities,
    asks_for_several_choices,
    repeats_by_a_seed,
    stops_at_a_text,
    forbids_a_token,
    sends_a_whole_conversation,
    completes_a_text,
    completes_several_prompts,
    completes_tokens_with_their_probabilities,
    embeds_texts,
    responds,
    hears_of_errors,
    shows_a_picture_to_a_model_that_reads_text,
    asks_several_at_once_and_leaves,
]


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda one: one.__name__)
def test_it(client: OpenAI, behaviour: Callable[[OpenAI], None]) -> None:
    behaviour(client)


def test_there_are_twenty() -> None:
    assert len(BEHAVIOURS) == 20
