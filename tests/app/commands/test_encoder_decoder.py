"""Commands with a model whose encoder reads the prompt: what works, and what is refused."""

import json
from pathlib import Path

import pytest

from engine.runner import load
from tests.engine.models.text.files import write
from tests.engine.models.text.test_t5 import ANSWERS, by_hand
from tests.in_process import run_here

pytestmark = pytest.mark.usefixtures("nothing_left")
HOST = ("--device", "host", "--kv", "f32")
PROMPT = "translate: abc"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(ANSWERS[1], tmp_path_factory.mktemp("t5"))


def test_it_answers_a_prompt(path: Path) -> None:
    with load(path, device="host", kv="f32") as model:
        tokenizer = model.loaded.tokenizer
        expected = tokenizer.decode(by_hand(model, tokenizer.encode(PROMPT), 6))
    ended = run_here("run", str(path), "-p", PROMPT, "--temp", "0", "-n", "6", *HOST)
    assert (ended.returncode, ended.stdout.strip()) == (0, expected.strip())
    assert ended.stderr.count("each message is answered by itself") == 1


def test_results_of_the_decoder_are_dumped(path: Path) -> None:
    arguments = ("--tensors", "cross_q-0", "-p", PROMPT, "--steps", "1", "--json")
    ended = run_here("dump", str(path), *arguments, *HOST)
    assert ended.returncode == 0
    assert json.dumps(json.loads(ended.stdout)).count("cross_q-0") >= 2


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (("embed", "--text", "abc"), "'embeddings' is not supported"),
        (("attend", "-p", "abc"), "learned bias look is not supported"),
        (("bench",), "only answers prompts, is not supported"),
        (("compare", "-p", "abcdef"), "only answers prompts, is not supported"),
    ],
    ids=lambda given: given[0] if isinstance(given, tuple) else "",
)
def test_what_is_none_of_its_is_refused(command: tuple[str, ...], problem: str, path: Path) -> None:
    name, *rest = command
    ended = run_here(name, str(path), *rest, *HOST)
    assert ended.returncode != 0
    assert problem in ended.stderr.splitlines()[-1]
