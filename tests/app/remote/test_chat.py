"""Chats with a server: what is sent, what comes of its streams, what is measured."""

import base64
import io
import json
from itertools import repeat
from math import log
from typing import Any

import pytest
from PIL import Image

from app.remote import remote_answer
from engine.protocol import (
    ChatMessage,
    Failed,
    Finished,
    Generate,
    JsonSchema,
    PictureInfo,
    PicturePart,
    Piece,
    Progress,
    PutPicture,
    Sampling,
    TextPart,
    Tool,
    Tools,
)
from tests.app.remote.chat_server import DONE, HELLO, USAGE, ChatServer, Said, delta, frame, page
from tests.app.remote.conftest import Asker


def test_an_answer_comes_in_pieces_and_is_counted(opened: Asker, server: ChatServer) -> None:
    server.answers = [Said(HELLO)]
    end = opened.chat("Hello?", sampling=Sampling(temperature=0.5, seed=7), max_tokens=9)
    assert isinstance(end, Finished)
    assert end.reason == "stop"
    assert opened.text == "Hello"
    stats = end.stats
    assert (stats.n_prompt, stats.n_generated, stats.seed, stats.n_context) == (11, 2, 7, 13)
    assert stats.first_token_s > 0
    body = server.chats[0].body
    assert body["messages"] == [{"role": "user", "content": "Hello?"}]
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}
    assert (body["model"], body["temperature"], body["seed"]) == ("tiny", 0.5, 7)
    assert body["max_tokens"] == 9
    assert "logprobs" not in body


def test_frames_cut_anywhere_are_the_same(opened: Asker, server: ChatServer) -> None:
    """Half frames, comments between them, characters cut in their middle."""
    whole = b": waiting\n\n" + delta("naïve 🐈") + b"\r\n" + b"".join(HELLO[2:])
    server.answers = [Said([whole[at : at + 1] for at in range(len(whole))])]
    assert isinstance(opened.chat(), Finished)
    assert opened.text == "naïve 🐈"


def test_probabilities_come_with_their_tokens(opened: Asker, server: ChatServer) -> None:
    def likely(text: str, chance: float, *others: str, **more: Any) -> dict[str, Any]:
        top = [{"token": t, "logprob": log(0.1)} for t in others]
        first = {"token": text, "logprob": log(chance), "bytes": list(text.encode()), **more}
        return {**first, "top_logprobs": [dict(first), *top]}

    tokens = [likely("Hel", 0.5, "By"), likely("lo", 0.25, id=42)]
    server.answers = [Said([delta("Hello", likely=tokens), *HELLO[2:]])]
    assert isinstance(opened.chat(logprobs=3), Finished)
    body = server.chats[0].body
    assert (body["logprobs"], body["top_logprobs"]) == (True, 3)
    pieces = [piece for piece in opened.told if isinstance(piece, Piece)]
    assert [piece.text for piece in pieces] == ["Hel", "lo"]
    first, second = (piece.tokens[0] for piece in pieces)
    assert first.logprob == pytest.approx(log(0.5))
    assert [other.text for other in first.top] == ["Hel", "By"]
    assert first.token == first.top[0].token != second.token == 42


def test_thoughts_stand_between_marks_or_apart(opened: Asker, server: ChatServer) -> None:
    frames = [delta(reasoning_content="Hm, "), delta(reasoning="so."), *HELLO]
    server.answers = [Said(frames)]
    opened.chat()
    assert opened.text == "<think>\nHm, so.\n</think>\n\nHello"
    opened.chat(apart=True)
    pieces = [(p.kind, p.text) for p in opened.told if isinstance(p, Piece)]
    assert pieces == [("thought", "Hm, "), ("thought", "so."), ("answer", "Hel"), ("answer", "lo")]


def test_earlier_thoughts_are_not_sent_again(opened: Asker, server: ChatServer) -> None:
    server.answers = [Said(HELLO)]
    said = [ChatMessage("assistant", "<think>\nHm\n</think>\n\nYes."), ChatMessage("user", "Why?")]
    opened.ask(Generate(0, messages=said))
    assert server.chats[0].body["messages"][0]["content"] == "Yes."


def test_pictures_travel_as_data(opened: Asker, server: ChatServer) -> None:
    made = io.BytesIO()
    Image.new("RGB", (5, 4), "red").save(made, "PNG")
    server.answers = [Said(HELLO)]
    info = opened.ask(PutPicture(0, made.getvalue()))
    assert isinstance(info, PictureInfo)
    assert (info.width, info.height) == (5, 4)
    parts: list[TextPart | PicturePart] = [PicturePart(info.digest), TextPart("What is it?")]
    opened.ask(Generate(0, messages=[ChatMessage("user", parts)]))
    picture, text = server.chats[0].body["messages"][0]["content"]
    kind, _, data = picture["image_url"]["url"].partition(",")
    assert kind == "data:image/png;base64"
    assert base64.b64decode(data) == made.getvalue()
    assert text == {"type": "text", "text": "What is it?"}
    unknown = opened.ask(Generate(0, messages=[ChatMessage("user", [PicturePart("ff")])]))
    assert isinstance(unknown, Failed)
    assert unknown.pictures == ["ff"]
    bad = opened.ask(PutPicture(0, b"%!PS-Adobe"))
    assert isinstance(bad, Failed)
    assert bad.kind == "BadPicture"


def test_forms_tools_and_calls(opened: Asker, server: ChatServer) -> None:
    call = [{"index": 0, "id": "call_1", "function": {"name": "add", "arguments": '{"a": 1}'}}]
    server.answers = [Said([delta(tool_calls=call), delta(finish="tool_calls"), DONE])]
    tools = Tools([Tool("add", "Adds.", '{"type": "object"}')])
    end = opened.chat(tools=tools, form=JsonSchema('{"type": "object"}'))
    assert isinstance(end, Finished)
    assert end.reason == "calls"
    calls = [piece.call for piece in opened.told if isinstance(piece, Piece)]
    assert [(part.id, part.name, part.arguments) for part in calls if part] == [
        ("call_1", "add", '{"a": 1}')
    ]
    body = server.chats[0].body
    assert body["tools"][0]["function"]["parameters"] == {"type": "object"}
    assert body["response_format"]["json_schema"]["schema"] == {"type": "object"}


def test_a_server_that_does_not_stream_is_read_as_well(opened: Asker, server: ChatServer) -> None:
    whole = {"choices": [{"message": {"content": "All."}, "finish_reason": "length"}]}
    server.answers = [page(whole)]
    end = opened.chat()
    assert isinstance(end, Finished)
    assert (end.reason, opened.text) == ("length", "All.")
    assert any("does not stream" in note for note in end.stats.notes)


def test_network_is_told_apart_where_the_server_measures(opened: Asker, server: ChatServer) -> None:
    timings = {"cache_n": 4, "prompt_n": 7, "prompt_ms": 0.0, "predicted_per_second": 123.4}
    last = frame(choices=[], usage={"prompt_tokens": 11, "completion_tokens": 2}, timings=timings)
    server.answers = [Said([*HELLO[:3], last, DONE])]
    end = opened.chat()
    assert isinstance(end, Finished)
    assert (end.stats.n_cached, end.stats.prefill_s) == (4, 0.0)
    told = "\n".join(end.stats.notes)
    assert "Network and queue took" in told
    assert "123.4 tokens a second" in told


def test_without_counts_they_are_about(opened: Asker, server: ChatServer) -> None:
    server.answers = [Said([*HELLO[:3], DONE])]
    end = opened.chat()
    assert isinstance(end, Finished)
    assert end.stats.n_generated == 2
    assert any("estimated" in note for note in end.stats.notes)


def test_what_a_server_does_not_know_is_left_out_and_said(
    opened: Asker, server: ChatServer
) -> None:
    def answer(heard: Any) -> Said:
        wrong = [name for name in ("min_p", "top_k", "logprobs") if name in heard.body]
        if wrong:
            return page({"error": {"message": f"Unrecognized argument: {wrong[0]}"}}, 400)
        return Said(HELLO)

    server.answers = [answer]
    end = opened.chat(logprobs=5)
    assert isinstance(end, Finished)
    assert opened.text == "Hello"
    said = " ".join(end.stats.notes)
    assert all(name in said for name in ("min_p", "top_k", "logprobs", "top_logprobs"))
    asked = len(server.chats)
    opened.chat(logprobs=5)
    assert len(server.chats) == asked + 1  # what it does not know is not sent again


def test_stop_closes_the_connection(opened: Asker, server: ChatServer) -> None:
    server.answers = [Said([delta("Hel")], hangs=True)]
    request = Generate(0, messages=[ChatMessage("user", "Hello?")])
    number = opened.client.send(request)
    while not isinstance(opened.events.get(timeout=30), Piece):
        pass
    opened.client.cancel(number)
    end = opened.end_of(number, request)
    assert isinstance(end, Finished)
    assert end.reason == "cancelled"
    assert server.gone.wait(30)


def test_stop_ends_an_answer_without_end_that_never_pauses(
    opened: Asker, server: ChatServer
) -> None:
    server.answers = [Said(repeat(50 * delta("word ")))]
    request = Generate(0, messages=[ChatMessage("user", "Hello?")])
    number = opened.client.send(request)
    while not isinstance(opened.events.get(timeout=30), Piece):
        pass
    opened.client.cancel(number)
    end = opened.end_of(number, request)
    assert isinstance(end, Finished)
    assert end.reason == "cancelled"


def test_an_answer_without_end_has_a_bound(
    opened: Asker, server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_answer, "MOST_ANSWER", 1 << 20)
    server.answers = [Said(repeat(50 * delta("word " * 1000)))]
    end = opened.chat()
    assert isinstance(end, Failed)
    assert "its answer is larger than 1 MiB; the text so far is kept" in end.message
    assert 1 << 19 < len(opened.text) < 1 << 21


def test_an_answer_goes_on_where_the_server_can(asker: Asker, server: ChatServer) -> None:
    models = {"data": [{"id": "tiny", "owned_by": "vllm", "max_model_len": 2048}]}
    server.pages["/v1/models"] = page(models)
    asker.open(server)
    server.answers = [Said(HELLO)]
    assert isinstance(asker.chat(prefix="Oh, "), Finished)
    body = server.chats[0].body
    assert body["messages"][-1] == {"role": "assistant", "content": "Oh, "}
    assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)


def test_going_on_is_refused_where_it_is_unknown(opened: Asker, server: ChatServer) -> None:
    end = opened.chat(prefix="Oh, ")
    assert isinstance(end, Failed)
    assert "regenerate" in end.message
    assert not server.chats


def test_waiting_is_said_and_ends_with_an_answer(opened: Asker, server: ChatServer) -> None:
    busy = page({"error": {"message": "slots are full"}}, 429, **{"Retry-After": "0"})
    server.answers = [busy, Said(HELLO)]
    end = opened.chat()
    assert isinstance(end, Finished)
    assert opened.text == "Hello"
    notes = [event.note for event in opened.told if isinstance(event, Progress)]
    assert len(notes) == 1
    assert "slots are full" in notes[0]
    assert "retrying" in notes[0]
    assert any("Retried" in note for note in end.stats.notes)
    assert json.dumps(server.chats[0].body) == json.dumps(server.chats[1].body)


def test_usage_without_choices_ends_nothing(opened: Asker, server: ChatServer) -> None:
    server.answers = [Said([USAGE, delta("A"), delta(finish="stop"), DONE])]
    assert isinstance(opened.chat(), Finished)
    assert opened.text == "A"


def test_what_a_server_repeats_is_left_out(asker: Asker, server: ChatServer) -> None:
    """llama-server begins with the answer's beginning again, in one frame or several."""
    models = {"data": [{"id": "tiny", "owned_by": "llamacpp"}]}
    server.pages["/v1/models"] = page(models)
    asker.open(server)
    for frames in (["Oh, so", " it is"], ["Oh,", " ", "so it is"], ["so it is"], ["Oh"]):
        server.answers = [Said([*map(delta, frames), delta(finish="stop"), DONE])]
        assert isinstance(asker.chat(prefix="Oh, "), Finished)
        assert asker.text == ("Oh" if frames == ["Oh"] else "so it is")
