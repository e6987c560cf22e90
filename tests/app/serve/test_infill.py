"""Places in a text that are filled in: /infill, and `suffix` of OpenAI and Ollama."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from gguf import GGUFValueType

from engine.gguf import open_gguf
from engine.protocol import Infill, Snippet
from engine.runner.infill import infill_tokens
from engine.tokenizer import Tokenizer, load_tokenizer
from tests.app.serve.running import HOST, Served, events, served
from tests.goldens.tiny import write_tiny

PRE, SUF, MID, PAD = 4, 5, 6, 7  # bytes that nobody writes here
MARKS = {"fim_pre": PRE, "fim_suf": SUF, "fim_mid": MID, "fim_pad": PAD}
PREFIX, SUFFIX = "the hat on ", " the end"
GREEDY = {"temperature": 0}
N_CTX = 4096
OPTIONS = replace(HOST, ctx=N_CTX)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    keys = {
        f"tokenizer.ggml.{name}_token_id": (token, GGUFValueType.UINT32)
        for name, token in MARKS.items()
    }
    keys["llama.context_length"] = N_CTX, GGUFValueType.UINT32
    return write_tiny(tmp_path_factory.mktemp("fim") / "fim.gguf", "llama", metadata=keys)


@pytest.fixture(scope="module")
def filling(path: Path) -> Iterator[Served]:
    """A server of a random model that knows the tokens."""
    with served(path, OPTIONS) as running:
        yield running


@pytest.fixture(scope="module")
def tokenizer(path: Path) -> Tokenizer:
    with open_gguf(path) as file:
        return load_tokenizer(file.metadata)


def by_tokens(server: Served, tokens: list[int], most: int = 8) -> str:
    """How the model goes on behind tokens."""
    body = {"prompt": tokens, "n_predict": most} | GREEDY
    told: str = server.post("/completion", body).json()["content"]
    return told


def asked(**more: Any) -> dict[str, Any]:
    fields = {"input_prefix": PREFIX, "input_suffix": SUFFIX, "n_predict": 8}
    return fields | GREEDY | more


def test_infill(filling: Served, tokenizer: Tokenizer) -> None:
    def ids(text: str) -> list[int]:
        return tokenizer.encode(text, add_special=False)

    whole = [PRE, *ids(PREFIX), *ids("a to"), SUF, *ids(SUFFIX), MID]
    told = filling.post("/infill", asked(prompt="a to")).json()
    assert told["content"] == by_tokens(filling, whole)
    assert told["tokens_evaluated"] == len(whole)
    assert (told["stop_type"], len(told["tokens"])) == ("limit", 8)
    frames = events(filling.stream("/infill", asked(prompt="a to")))
    assert "".join(frame["content"] for frame in frames) == told["content"]
    assert [frame["stop"] for frame in frames] == [False] * (len(frames) - 1) + [True]


def test_other_files_stand_before_it(filling: Served, tokenizer: Tokenizer) -> None:
    files = [{"text": "a hat", "filename": "hat.py"}, {"text": "no name"}]
    told = filling.post("/infill", asked(input_extra=files)).json()
    snippets = [Snippet(one["text"], one.get("filename", "")) for one in files]
    place = Infill(PREFIX, SUFFIX, snippets=snippets, window=2048)
    whole = infill_tokens(tokenizer, place, N_CTX, 8)
    assert PRE in whole[20:]
    assert told["tokens_evaluated"] == len(whole)
    assert told["content"] == by_tokens(filling, whole)


def test_suffixes_of_completions(filling: Served) -> None:
    """OpenAI's and Ollama's; whole and in pieces."""
    wanted = filling.post("/infill", asked()).json()["content"]
    body = {"prompt": PREFIX, "suffix": SUFFIX, "max_tokens": 8, "temperature": 0}
    assert filling.post("/v1/completions", body).json()["choices"][0]["text"] == wanted
    frames = events(filling.stream("/v1/completions", body))[:-1]
    assert "".join(frame["choices"][0]["text"] for frame in frames) == wanted
    two = filling.post("/v1/completions", body | {"prompt": ["x", PREFIX]}).json()["choices"]
    assert [one["index"] for one in two if one["text"] == wanted] == [1]

    options = {"temperature": 0, "num_predict": 8}
    mine = {"model": "tiny", "prompt": PREFIX, "suffix": SUFFIX, "options": options}
    told = filling.post("/api/generate", mine | {"stream": False}).json()
    assert (told["response"], told["done_reason"]) == (wanted, "length")
    lines = [msgspec.json.decode(one) for one in filling.post("/api/generate", mine).text.split()]
    assert "".join(line["response"] for line in lines) == wanted
    begins = mine | {"prompt": "", "stream": False}  # no load, but a file's beginning
    assert filling.post("/api/generate", begins).json()["eval_count"] == 8
    assert "insert" in filling.post("/api/show", {"model": "tiny"}).json()["capabilities"]


def test_an_empty_suffix_is_none(filling: Served) -> None:
    body = {"prompt": PREFIX, "max_tokens": 8, "temperature": 0}
    plain = filling.post("/v1/completions", body).json()["choices"][0]["text"]
    told = filling.post("/v1/completions", body | {"suffix": ""}).json()["choices"][0]["text"]
    assert told == plain


@pytest.mark.parametrize("token", [PRE, SUF, MID, PAD])
def test_a_mark_ends_the_answer(filling: Served, token: int) -> None:
    likely = {"logit_bias": {str(token): 100}}
    told = filling.post("/infill", asked(**likely)).json()
    assert (told["content"], told["stop_type"], told["tokens_predicted"]) == ("", "eos", 1)
    text = filling.post("/completion", {"prompt": "the", "n_predict": 4} | likely).json()
    assert (text["stop_type"] == "eos") == (token == PAD)  # of a plain text only what pads


def test_a_file_that_is_edited_is_not_read_again(filling: Served) -> None:
    """What stands before the first change is cached, with the files before it."""
    files = [{"text": "e" * 40}]
    lines = ["the hat on", "the toe in", "the road to"]
    first = filling.post("/infill", asked(input_prefix="\n".join(lines), input_extra=files)).json()
    lines[-1] += " the sea"
    again = filling.post("/infill", asked(input_prefix="\n".join(lines), input_extra=files)).json()
    n_suffix = len(SUFFIX) + 2
    assert again["tokens_cached"] >= first["tokens_evaluated"] - n_suffix - 2
    assert again["timings"]["prompt_n"] <= n_suffix + len(" the sea") + 2
    same = filling.post("/infill", asked(input_prefix="\n".join(lines), input_extra=files)).json()
    assert same["timings"]["prompt_n"] == 1


def test_reading_ahead(filling: Served) -> None:
    """Editors send files with n_predict 0, to have them read before something is typed."""
    files = [{"text": "q" * 60, "filename": "o"}]
    ahead = {"input_prefix": "", "input_suffix": "", "n_predict": 0, "input_extra": files}
    more = {"id_slot": 0, "samplers": [], "cache_prompt": True, "t_max_predict_ms": 1}
    told = filling.post("/infill", ahead | more | {"prompt": "", "response_fields": [""]})
    assert (told.status_code, told.json()["tokens_predicted"]) == (200, 0)
    again = filling.post("/infill", asked(input_extra=files)).json()
    assert again["tokens_cached"] > 60


def test_the_suffix_first(path: Path, tokenizer: Tokenizer) -> None:
    with served(path, OPTIONS, spm_infill=True) as server:
        told = server.post("/infill", asked()).json()
        place = Infill(PREFIX, SUFFIX, suffix_first=True)
        assert told["content"] == by_tokens(server, infill_tokens(tokenizer, place, N_CTX))
        more = server.post("/infill", asked(input_prefix=PREFIX + "sea")).json()
        assert more["timings"]["prompt_n"] <= len("sea") + 2  # nothing but what was written since
        body = {"prompt": PREFIX, "suffix": SUFFIX, "max_tokens": 8, "temperature": 0}
        text = server.post("/v1/completions", body).json()["choices"][0]["text"]
        assert text == told["content"]


def test_a_model_without_the_tokens_says_so(tiny: Served) -> None:
    body = {"model": "tiny", "prompt": "a", "suffix": "b"}
    for path, asks in (
        ("/infill", asked()),
        ("/infill", asked(stream=True)),
        ("/v1/completions", body),
        ("/api/generate", body),
        ("/api/generate", body | {"stream": False}),
    ):
        refused = tiny.post(path, asks)
        assert refused.status_code == 400
        assert "no token for prefix, suffix, middle; choose a code model" in refused.text
    assert "insert" not in tiny.post("/api/show", {"model": "tiny"}).json()["capabilities"]


@pytest.mark.parametrize(
    ("where", "body", "says"),
    [
        ("/infill", {"input_prefix": "a"}, "input_suffix"),
        ("/infill", asked(prompt=[1, 2]), "prompt"),
        ("/infill", asked(input_extra={"text": "a"}), "input_extra"),
        ("/infill", asked(input_extra=[{"filename": "a"}]), "text"),
        ("/v1/completions", {"prompt": [[1]], "suffix": "a"}, "suffix: expected prompts as text"),
        ("/v1/completions", {"prompt": "a", "suffix": "a", "echo": True}, "and no echo"),
        ("/v1/completions", {"prompt": "q" * 5000, "suffix": "a"}, "tokens > 4096 maximum"),
        (
            "/api/generate",
            {"model": "tiny", "prompt": "a", "suffix": "b", "images": ["aaaa"]},
            "suffix: expected no images",
        ),
    ],
)
def test_refusals(filling: Served, where: str, body: dict[str, Any], says: str) -> None:
    refused = filling.post(where, body)
    assert refused.status_code == 400
    assert says in refused.text


def test_a_line_with_less_indentation_ends_the_answer(filling: Served) -> None:
    """So that an editor is offered the rest of a block, not what follows it."""
    body = asked(grammar='root ::= "a\\n  b\\n\\n  c\\nd"', n_predict=40)
    assert filling.post("/infill", body).json()["content"] == "a\n  b\n\n  c\nd"
    body |= {"n_indent": 2, "t_max_predict_ms": 10**6}
    told = filling.post("/infill", body).json()
    assert (told["content"], told["stop_type"]) == ("a\n  b\n\n  c", "limit")
    frames = events(filling.stream("/infill", body))
    assert "".join(frame["content"] for frame in frames) == told["content"]
    assert filling.post("/infill", asked(n_indent=-1)).status_code == 400
