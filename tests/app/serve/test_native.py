"""What monitors and llama-server's clients ask: state, tokens, templates, plain completions."""

from itertools import accumulate
from pathlib import Path

import httpx2
import pytest

from app.serve.openai.completions import token_offsets
from engine.gguf import open_gguf
from engine.protocol import TokenInfo
from engine.tokenizer import Tokenizer, load_tokenizer
from tests.app.serve.running import Served, events

TEXT = "the hat on é \U0001f600"


@pytest.fixture(scope="module")
def tokenizer(tiny_path: Path) -> Tokenizer:
    with open_gguf(tiny_path) as file:
        return load_tokenizer(file.metadata)


def test_state(tiny: Served, tiny_path: Path) -> None:
    assert tiny.get("/health").json() == {"status": "ok"}
    props = tiny.get("/props").json()
    assert props["total_slots"] == 4
    usual = props["default_generation_settings"]
    assert usual["n_ctx"] == 256
    assert (usual["params"]["temperature"], usual["params"]["min_p"]) == (0.8, 0.05)
    assert props["model_path"] == tiny_path.name
    assert props["modalities"] == {"vision": False, "audio": False}
    slots = tiny.get("/slots").json()
    assert [slot["id"] for slot in slots] == [0, 1, 2, 3]
    assert not any(slot["is_processing"] for slot in slots)
    assert str(tiny_path.parent) not in tiny.get("/props").text + tiny.get("/v1/models").text


def test_metrics_are_prometheus(tiny: Served) -> None:
    answer = tiny.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    names = set()
    for line in answer.text.splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            float(value)
            names.add(name.partition("{")[0])
    for name in ("prompt_tokens_total", "tokens_predicted_total", "requests_processing"):
        assert {f"cutaway:{name}", f"llamacpp:{name}"} <= names
    assert "cutaway:time_to_first_token_seconds_bucket" in names


def test_tokens(tiny: Served, tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode(TEXT, add_special=False)
    assert tiny.post("/tokenize", {"content": TEXT}).json() == {"tokens": ids}
    special = tiny.post("/tokenize", {"content": TEXT, "add_special": True}).json()
    assert special == {"tokens": tokenizer.encode(TEXT)}
    pieces = tiny.post("/tokenize", {"content": TEXT, "with_pieces": True}).json()["tokens"]
    data = [p["piece"] for p in pieces]
    whole = b"".join(p.encode() if isinstance(p, str) else bytes(p) for p in data)
    assert whole.decode() == TEXT
    assert any(isinstance(p, list) for p in data)  # half a character is told as bytes
    assert tiny.post("/detokenize", {"tokens": ids}).json() == {"content": TEXT}
    refused = tiny.post("/detokenize", {"tokens": [10**6]})
    assert refused.status_code == 400


def test_templates(tiny: Served) -> None:
    chat = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
    told = tiny.post("/apply-template", {"messages": chat}).json()
    assert told["prompt"].startswith("<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\nhi")
    assert told["prompt"].endswith("<|im_start|>assistant\n")
    assert tiny.post("/apply-template", {"messages": []}).status_code == 400


def test_offsets_of_half_characters() -> None:
    tokens = [TokenInfo(1, text="a"), TokenInfo(2, data=b"\xc3"), TokenInfo(3, data=b"\xa9x")]
    assert token_offsets([*tokens, TokenInfo(4, text="y")], "a\u00e9xy") == [0, 1, 1, 3]
    # A control token and the space that a tokenizer puts in front are not in the text.
    tokens = [TokenInfo(1, text=text) for text in ("<s>", " the", " hat")]
    assert token_offsets(tokens, "the hat") == [0, 0, 3]
    # What a stop string has cut has no place behind the text.
    assert token_offsets([TokenInfo(1, text="ab"), TokenInfo(2, text="c")], "a") == [0, 0]


def test_an_echo_with_probabilities(tiny: Served) -> None:
    """What evaluation harnesses ask: how likely each token of a text is, and nothing more."""
    ask = {"prompt": "the hat", "echo": True, "logprobs": 2, "temperature": 0}
    for most in (0, 3):
        choice = tiny.post("/v1/completions", ask | {"max_tokens": most}).json()["choices"][0]
        told = choice["logprobs"]
        assert choice["text"].startswith("the hat")
        assert len({len(values) for values in told.values()}) == 1
        assert told["token_logprobs"][0] is None
        assert told["top_logprobs"][0] is None
        assert all(value < 0 for value in told["token_logprobs"][1:])
        n_prompt = len(
            tiny.post("/tokenize", {"content": "the hat", "add_special": True}).json()["tokens"]
        )
        assert len(told["tokens"]) == n_prompt + most
        sizes = map(len, told["tokens"])
        assert told["text_offset"] == list(accumulate(sizes, initial=0))[:-1]
        streamed = events(tiny.stream("/v1/completions", ask | {"max_tokens": most}))[:-1]
        assert "".join(c["choices"][0]["text"] for c in streamed) == choice["text"]
        chunks = [c["choices"][0]["logprobs"] for c in streamed if c["choices"][0]["logprobs"]]
        assert [t for c in chunks for t in c["tokens"]] == told["tokens"]
        assert [at for c in chunks for at in c["text_offset"]] == told["text_offset"]


def test_completion(tiny: Served) -> None:
    body = {"prompt": "the hat", "n_predict": 6, "temperature": 0}
    told = tiny.post("/completion", body).json()
    assert told["stop_type"] == "limit"
    assert told["tokens_predicted"] == len(told["tokens"]) == 6
    frames = events(tiny.stream("/completion", body))
    assert "".join(frame["content"] for frame in frames) == told["content"]
    assert [frame["stop"] for frame in frames] == [False] * (len(frames) - 1) + [True]
    assert frames[-1]["timings"]["predicted_n"] == 6
    same = tiny.post("/v1/completions", body | {"max_tokens": 6}).json()
    assert same["choices"][0]["text"] == told["content"]


def test_speculation_by_request(tiny: Served) -> None:
    """Whatever is asked for, the answer is the same; its timings count what was drafted."""
    body = {"prompt": "the hat the hat the hat", "n_predict": 12, "temperature": 0}
    plain, most = (
        tiny.post("/completion", body | {"speculative": given}).json()
        for given in ({"type": "none"}, {"type": "ngram", "n_max": 8})
    )
    assert plain["content"] == most["content"]
    assert plain["timings"]["draft_n"] == plain["timings"]["draft_n_accepted"] == 0
    assert most["timings"]["draft_n"] >= most["timings"]["draft_n_accepted"]
    refused = tiny.post("/completion", body | {"speculative": {"type": "tea leaves"}})
    assert refused.status_code == 400
    assert "none, auto, ngram" in refused.json()["error"]["message"]
    assert "cutaway:draft_tokens_accepted_total" in tiny.get("/metrics").text


def test_many_stops(tiny: Served) -> None:
    """Editors send a dozen, where OpenAI takes four."""
    whole = tiny.post("/completion", {"prompt": "the hat", "n_predict": 9, "temperature": 0}).json()
    stop = whole["content"][2:4]
    stops = [*(f"<|never said {i}|>" for i in range(20)), stop]
    told = tiny.post("/completion", {"prompt": "the hat", "temperature": 0, "stop": stops}).json()
    assert (told["content"], told["stopping_word"]) == (whole["content"][:2], stop)
    refused = tiny.post("/v1/completions", {"prompt": "a", "stop": ["x"] * 65})
    assert "stop: expected at most 64 strings" in refused.text


def test_the_bare_address(tiny: Served) -> None:
    """Programs that look for Ollama only want to hear something there."""
    for ask in (httpx2.get, httpx2.head):
        answer = ask(tiny.url + "/")
        assert answer.status_code == 200
    assert httpx2.get(tiny.url).text == "Cutaway is running"
