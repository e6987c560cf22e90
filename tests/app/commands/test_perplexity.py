"""`cutaway perplexity` against its convention, written down once more in NumPy."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from engine.gguf import open_gguf
from engine.runner import load
from engine.tokenizer import load_tokenizer
from tests.in_process import run_here
from tests.program import assert_one_line_error, run

pytestmark = pytest.mark.usefixtures("nothing_left")
HOST = ("--device", "host")
CTX, K = 64, 5


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some text; the name of a control token in it is plain text."""
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("The hat on the heath, <|im_end|> there and ön thät oath. " * 12, "utf-8")
    return path


def by_definition(path: Path, text: str) -> dict[str, np.ndarray]:
    """What is to be stored, and each scored token's negative log-likelihood `nll`."""
    with open_gguf(path) as file:
        tokenizer = load_tokenizer(file.metadata)
    ids = tokenizer.encode(text, parse_special=False)
    chunks = [ids[i : i + CTX] for i in range(0, len(ids) - CTX + 1, CTX)]
    best, logp, nll = [], [], []
    with load(path, device="host", ctx=CTX) as model:
        for chunk in chunks:
            first = [tokenizer.bos] if tokenizer.add_bos else chunk[:1]
            logits = np.concatenate([x for _, x in model.logits([*first, *chunk[1:]])])
            p = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
            scored = np.log(p / p.sum(axis=1, keepdims=True))[CTX // 2 : CTX - 1]
            best.append(np.argsort(-scored, axis=1, kind="stable")[:, :K])
            logp.append(np.take_along_axis(scored, best[-1], axis=1))
            nll += [-scored[i, token] for i, token in enumerate(chunk[CTX // 2 + 1 :])]
    return {
        "tokens": np.array(chunks),
        "ids": np.array(best),
        "logp": np.array(logp),
        "nll": np.array(nll),
    }


@pytest.mark.parametrize("name", ["tiny_path", "tiny_base_path"])
def test_the_convention(
    name: str, text: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path: Path = request.getfixturevalue(name)
    expected = by_definition(path, text.read_text("utf-8"))
    nll, n = expected["nll"], len(expected["nll"])
    out = tmp_path / "stored"
    words = (str(path), str(text), *HOST, "--ctx", str(CTX), "--top-k", str(K))
    ended = run_here("perplexity", *words, "--out", str(out))
    assert (ended.returncode, ended.stderr.count("\n")) == (0, int("base" in name))
    estimates, final = ended.stdout.splitlines()
    assert final.startswith("PPL = ")
    ppl, error = map(float, final.removeprefix("PPL = ").split(" +/- "))
    assert ppl == pytest.approx(math.exp(nll.mean()), rel=1e-4)
    assert error == pytest.approx(ppl * nll.std(ddof=1) / math.sqrt(n), rel=1e-3)
    running = [float(e.split("]")[1]) for e in estimates.removesuffix(",").split(",")]
    per_chunk = CTX - 1 - CTX // 2
    chunks = len(expected["tokens"])
    assert estimates.startswith("[1]")
    assert running == pytest.approx(
        [math.exp(nll[: per_chunk * (i + 1)].mean()) for i in range(chunks)], rel=1e-4
    )
    with np.load(out) as stored:
        assert {k: v.dtype for k, v in stored.items()} == {
            "tokens": np.int32,
            "ids": np.int32,
            "logp": np.float32,
        }
        np.testing.assert_array_equal(stored["tokens"], expected["tokens"])
        np.testing.assert_array_equal(stored["ids"], expected["ids"])
        np.testing.assert_allclose(stored["logp"], expected["logp"], atol=1e-4)


def test_json(tiny_path: Path, text: Path) -> None:
    ended = run("perplexity", str(tiny_path), str(text), *HOST, "--ctx", "32", "--json")
    assert (ended.returncode, ended.stderr) == (0, "")
    result = json.loads(ended.stdout)
    assert result["perplexity"] > 1
    assert 0 < result["error"] < result["perplexity"]
    assert (result["ctx"], result["device"]) == (32, "host")


def test_what_cannot_be_scored(tiny_path: Path, text: Path, tmp_path: Path) -> None:
    words = ("perplexity", str(tiny_path))
    short = tmp_path / "short.txt"
    short.write_text("the")
    assert_one_line_error(run_here(*words, str(short), *HOST, "--ctx", "64"), "chunk of 64 tokens")
    short.write_bytes(b"caf\xe9")
    assert_one_line_error(run_here(*words, str(short)), "short.txt", "UTF-8", "byte 3")
    assert_one_line_error(run_here(*words, str(tmp_path / "none.txt")), "none.txt")
    endless = run_here(*words, "/dev/zero")
    assert_one_line_error(endless, "TEXTFILE: '/dev/zero'", "at most 64 MiB")
    nowhere = str(tmp_path / "nowhere" / "x.npz")
    assert_one_line_error(run_here(*words, str(text), "--out", nowhere), "--out", "nowhere")
