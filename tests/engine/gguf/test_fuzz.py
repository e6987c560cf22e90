"""Headers with odd parts, opened all the way to a plan: a CutawayError or none, within bounds."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from engine.errors import CutawayError
from engine.gguf import open_gguf
from engine.gguf.dump import dump
from engine.gguf.summary import summarize
from engine.gguf.values import ValueType
from engine.models.build import build_model
from engine.protocol import DescribePlan
from engine.runner.batch import MAX_BATCH
from engine.runner.devices import open_devices
from engine.runner.loading import name_of
from engine.runner.placing.describe import describe_plan
from engine.runner.placing.graphs import ModelGraphs
from engine.runner.placing.placement import place
from engine.settings import EngineOptions
from engine.tokenizer import load_chat_template, load_tokenizer
from tests.bounds import at_most_lines
from tests.engine.gguf.fuzzing import case, draft_of
from tests.engine.gguf.test_hostile import memory_limit

QUICK, FULL, PART = 50, 100_000, 5_000
OPTIONS = EngineOptions(device="host")
LINES = 400_000  # of Python, to open and bind; a file that is whole takes a tenth of them
# Values that once made an error of thousands of characters, or no CutawayError at all.
FOUND = {
    "a long tokenizer": ("tokenizer.ggml.model", "x" * 5000),
    "a long pre-tokenizer": ("tokenizer.ggml.pre", "x" * 70_000),
    "a long architecture": ("general.architecture", "x" * 5000),
}


def open_all_the_way(path: Path) -> None:
    """What `cutaway inspect`, `cutaway plan` and a load do before anything is computed."""
    with at_most_lines(LINES), open_gguf(path) as file:
        summarize(file)
        for info in list(file.tensors.values())[:3]:
            dump(file.data(info.name)[:9], info.fmt)
        build_model(file, OPTIONS.ctx, MAX_BATCH)
        load_chat_template(file.metadata, load_tokenizer(file.metadata))
    with open_gguf(path) as file, ExitStack() as stack:
        built = build_model(file, OPTIONS.ctx, MAX_BATCH)
        placed = place(ModelGraphs(built), open_devices(OPTIONS, stack), OPTIONS)
        describe_plan(DescribePlan(1, str(path), OPTIONS), placed, name_of(file))


def end_of(raw: bytes, path: Path) -> CutawayError | None:
    """What a file ends in, if not in a plan; anything else is raised."""
    path.write_bytes(raw)
    try:
        with memory_limit():
            open_all_the_way(path)
    except CutawayError as refused:
        return refused
    return None


def check(raw: bytes, path: Path, name: object) -> str:
    """The kind of error that a file ends in, if any."""
    try:
        refused = end_of(raw, path)
    except BaseException as error:
        raise AssertionError(f"{name} ends in {type(error).__name__}: {error}") from error
    assert len(str(refused)) < 3000 + len(str(path)), (name, str(refused)[:200])
    return refused.kind if refused is not None else ""


def test_a_few(tmp_path: Path) -> None:
    ends = {check(case(number), tmp_path / "case.gguf", number) for number in range(QUICK)}
    assert {"", "BadFile", "TensorMismatch"} <= ends


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_before(name: str, tmp_path: Path) -> None:
    draft = draft_of("llama")
    key, value = FOUND[name]
    draft.pairs[key] = ValueType.STRING, value
    assert check(b"".join(draft.encoded()), tmp_path / "case.gguf", name)


@pytest.mark.full
@pytest.mark.parametrize("start", range(0, FULL, PART))
def test_a_hundred_thousand(start: int, tmp_path: Path) -> None:
    for number in range(start, start + PART):
        check(case(number), tmp_path / "case.gguf", number)
