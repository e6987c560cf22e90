"""A device in the manner of GPUs finds the best logits itself: same tokens, one small read each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.buffers import OpenCLBuffer
from engine.gguf import open_gguf
from engine.gguf.values import ValueType as V
from engine.models.base import N_BEST
from engine.protocol import Generate, Sampling
from engine.runner.api import Model, load
from tests.engine.runner.answering.many import Many, asked, ids, tiny
from tests.gguf_files import drafted
from tests.kernels.conftest import pytest_generate_tests

__all__ = ["pytest_generate_tests"]

LIKE_USUAL = Sampling(temperature=0.8, top_k=20, seed=7)


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> str:
    """A device of every driver in turn."""
    return str(request.param)


@pytest.fixture
def model(backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Model]:
    monkeypatch.setenv("CUTAWAY_LANES", "1")
    monkeypatch.setenv("CUTAWAY_TRIALS", "0")
    with load(tiny(tmp_path, "llama"), device=backend, ctx=128, parallel=3) as model:
        yield model


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of each blocking read."""
    found: list[int] = []
    whole = OpenCLBuffer.read

    def read(self: OpenCLBuffer, offset: int, size: int) -> object:
        found.append(size)
        return whole(self, offset, size)

    monkeypatch.setattr(OpenCLBuffer, "read", read)
    return found


def answers(model: Model, requests: list[Generate], reads: list[int]) -> list[list[int]]:
    """Tokens of answers at once; `reads` are left those of their last four tokens."""
    many = Many(model)
    for one in requests:
        many.ask(one)
    for _ in range(5):
        many.turn()
    del reads[:]
    for _ in range(4):
        many.turn()
    found = reads[:]
    many.finish()
    reads[:] = found
    return [many.tokens(one.id) for one in requests]


@pytest.mark.parametrize("n", [1, 3])
def test_answers_are_the_same_and_little_is_read(
    model: Model, reads: list[int], monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    vocabulary = model.loaded.built.n_vocab
    assert vocabulary > 2 * N_BEST  # all logits are more
    kinds = [{}, {"sampling": LIKE_USUAL}, {}]
    requests = [asked(i, ids(i, 9), 12, **kinds[i]) for i in range(n)]
    few = answers(model, requests, reads)
    assert len(reads) == 4
    assert max(reads) <= 1024 * n
    monkeypatch.setattr(OpenCLBackend, "chooses", False, raising=False)
    for one in model.loaded.stepper.planner.backends:
        vars(one).pop("chooses", None)
    assert answers(model, requests, reads) == few
    assert min(reads) >= 4 * vocabulary


def test_who_looks_gets_all_logits(model: Model, reads: list[int]) -> None:
    answers(model, [asked(1, ids(1, 9), 12, logprobs=3)], reads)
    assert min(reads) >= 4 * model.loaded.built.n_vocab


def test_no_answer_has_what_its_file_suppresses(backend: str, tmp_path: Path) -> None:
    """As Gemma 4 12B does the places of pictures and sound."""
    path, free = tiny(tmp_path, "llama"), set[int]()
    with open_gguf(path) as file:
        draft = drafted(file)
    for _ in range(2):
        draft.pairs["tokenizer.ggml.suppress_tokens"] = (V.ARRAY, (V.INT32, sorted(free)))
        with load(draft.write(tmp_path / "held.gguf"), device=backend, ctx=64) as model:
            many = Many(model)
            many.ask(asked(1, ids(3, 10)))
            many.finish()
            told = set(many.tokens(1))
        assert told
        assert not told & free
        free = told
