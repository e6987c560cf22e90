"""Twenty behaviours of the `anthropic` package, unmodified, against a real server."""

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
    import anthropic
    from anthropic import Anthropic
else:
    anthropic = Later("anthropic")

CHAT = [{"role": "user", "content": "the hat on"}]
ASK = {"model": "tiny", "messages": CHAT, "max_tokens": 6, "extra_body": {"temperature": 0}}
TOOL = {"name": "weather", "description": "tells it", "input_schema": {"type": "object"}}


@pytest.fixture(scope="module")
def client(tiny: Served) -> Anthropic:
    return anthropic.Anthropic(base_url=tiny.url, api_key="none", max_retries=0)


def picture() -> str:
    file = io.BytesIO()
    Image.new("RGB", (4, 4)).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def text_of(message: anthropic.types.Message) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def answers(client: Anthropic) -> None:
    told = client.messages.create(**ASK)
    assert told.id.startswith("msg_")
    assert (told.role, told.type, told.model) == ("assistant", "message", "tiny")
    assert text_of(told)


def says_why_it_ended(client: Anthropic) -> None:
    assert client.messages.create(**ASK).stop_reason == "max_tokens"


def counts_tokens_used(client: Anthropic) -> None:
    used = client.messages.create(**ASK).usage
    assert used.output_tokens == 6
    counted = client.messages.count_tokens(model="tiny", messages=CHAT).input_tokens
    assert used.input_tokens + used.cache_read_input_tokens == counted


def counts_tokens_of_system_and_tools(client: Anthropic) -> None:
    plain = client.messages.count_tokens(model="tiny", messages=CHAT)
    more = client.messages.count_tokens(model="tiny", messages=CHAT, system="be brief")
    tools = client.messages.count_tokens(model="tiny", messages=CHAT, tools=[TOOL])
    assert plain.input_tokens < more.input_tokens < tools.input_tokens


def ends_at_a_sequence(client: Anthropic) -> None:
    text = text_of(client.messages.create(**ASK))
    told = client.messages.create(**ASK, stop_sequences=[text[2:4]])
    assert told.stop_reason == "stop_sequence"
    assert told.stop_sequence == text[2:4]
    assert text_of(told) == text[: text.index(text[2:4])]


def streams_raw_events(client: Anthropic) -> None:
    kinds = [event.type for event in client.messages.create(**ASK, stream=True)]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set(kinds[2:-3]) == {"content_block_delta"}


def streams_text_by_the_helper(client: Anthropic) -> None:
    with client.messages.stream(**ASK) as stream:
        text = "".join(stream.text_stream)
    assert text == text_of(client.messages.create(**ASK))


def puts_a_stream_together(client: Anthropic) -> None:
    with client.messages.stream(**ASK) as stream:
        final = stream.get_final_message()
    assert final.stop_reason == "max_tokens"
    assert final.usage.output_tokens == 6
    assert text_of(final) == text_of(client.messages.create(**ASK))


def takes_a_system_text(client: Anthropic) -> None:
    told = client.messages.create(**ASK, system="be brief")
    plain = client.messages.create(**ASK)
    read = told.usage.input_tokens + told.usage.cache_read_input_tokens
    assert read > plain.usage.input_tokens + plain.usage.cache_read_input_tokens


def takes_a_system_of_blocks(client: Anthropic) -> None:
    block = {"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}
    one = client.messages.count_tokens(model="tiny", messages=CHAT, system=[block])
    other = client.messages.count_tokens(model="tiny", messages=CHAT, system="be brief")
    assert one.input_tokens == other.input_tokens


def takes_content_of_blocks(client: Anthropic) -> None:
    blocks = [{"type": "text", "text": "the hat"}, {"type": "text", "text": " on"}]
    told = client.messages.create(**ASK | {"messages": [{"role": "user", "content": blocks}]})
    assert text_of(told) == text_of(client.messages.create(**ASK))


def goes_on_with_an_answer(client: Anthropic) -> None:
    begun = [*CHAT, {"role": "assistant", "content": "and of"}]
    told = client.messages.create(**ASK | {"messages": begun})
    assert not text_of(told).startswith("and of")
    assert told.usage.output_tokens == 6


def sends_results_of_tools(client: Anthropic) -> None:
    messages = [
        *CHAT,
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": ""},
                {"type": "text", "text": "wait"},
                {"type": "tool_use", "id": "t1", "name": "weather", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "rain"},
                {"type": "text", "text": "and now?"},
            ],
        },
    ]
    told = client.messages.create(**ASK | {"messages": messages})
    assert told.usage.output_tokens == 6


def chooses_by_temperature_and_top_k(client: Anthropic) -> None:
    one = client.messages.create(
        **ASK | {"extra_body": {"temperature": 1, "top_k": 1, "top_p": 0.9}}
    )
    assert text_of(one) == text_of(client.messages.create(**ASK))


def hears_of_a_model_that_is_not_here(client: Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError, match="not available"):
        client.messages.create(**ASK | {"model": "claude-9"})


def hears_of_fields_out_of_range(client: Anthropic) -> None:
    for wrong in ({"extra_body": {"temperature": 1.5}}, {"max_tokens": 0}, {"messages": []}):
        with pytest.raises(anthropic.BadRequestError) as refused:
            client.messages.create(**ASK | wrong)
        assert refused.value.body["type"] == "error"
        assert refused.value.body["error"]["type"] == "invalid_request_error"


def hears_that_a_prompt_does_not_fit(client: Anthropic) -> None:
    long = [{"role": "user", "content": "hat " * 400}]
    says = r"prompt is too long: \d+ tokens > 256 maximum"
    with pytest.raises(anthropic.BadRequestError, match=says):
        client.messages.create(**ASK | {"messages": long})


def shows_a_picture_to_a_model_that_reads_text(client: Anthropic) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": picture()}
    content = [{"type": "image", "source": source}, {"type": "text", "text": "what?"}]
    with pytest.raises(anthropic.BadRequestError, match="reads text only"):
        client.messages.create(**ASK | {"messages": [{"role": "user", "content": content}]})


def lists_models(client: Anthropic) -> None:
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").type == "model"


def asks_several_at_once_and_leaves(client: Anthropic) -> None:
    async def ask(other: anthropic.AsyncAnthropic, number: int) -> int:
        n = 0
        async with other.messages.stream(**ASK | {"max_tokens": 60}) as stream:
            async for _ in stream:
                n += 1
                if number % 2 and n == 4:
                    break
        return n

    async def all_of_them() -> list[int]:
        async with anthropic.AsyncAnthropic(base_url=client.base_url, api_key="none") as other:
            return await asyncio.gather(*(ask(other, number) for number in range(6)))

    counts = asyncio.run(all_of_them())
    assert counts[1::2] == [4, 4, 4]
    assert min(counts[0::2]) > 4


BEHAVIOURS: list[Callable[[Anthropic], None]] = [
    answers,
    says_why_it_ended,
    counts_tokens_used,
    counts_tokens_of_system_and_tools,
    ends_at_a_sequence,
    streams_raw_events,
    streams_text_by_the_helper,
    puts_a_stream_together,
    takes_a_system_text,
    takes_a_system_of_blocks,
    takes_content_of_blocks,
    goes_on_with_an_answer,
    sends_results_of_tools,
    chooses_by_temperature_and_top_k,
    hears_of_a_model_that_is_not_here,
    hears_of_fields_out_of_range,
    hears_that_a_prompt_does_not_fit,
    shows_a_picture_to_a_model_that_reads_text,
    lists_models,
    asks_several_at_once_and_leaves,
]


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda one: one.__name__)
def test_it(client: Anthropic, behaviour: Callable[[Anthropic], None]) -> None:
    behaviour(client)


def test_there_are_twenty() -> None:
    assert len(BEHAVIOURS) == 20
