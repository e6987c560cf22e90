"""On a slow processor nobody waits for a whole batch before Stop acts or progress is shown."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import gguf
import pytest

from engine.inside.token.library import look
from engine.runner import stepper
from engine.runner.api import Model, load
from engine.runner.batch import FIRST, MAX_BATCH, PATIENT, Patience, full_bucket
from engine.runner.stepper import StartedStep, StepPart, Stepper
from tests.engine.runner.answering.many import ids
from tests.goldens.tiny import write_tiny

TEXT = "One two three, four five; six seven. " * 20


def test_steps_follow_what_they_take() -> None:
    """The short end of a prompt says nothing."""
    patience = Patience(5 * 10**9, on_cpu=True)
    assert patience.most == FIRST
    patience.took(FIRST, FIRST / 25)  # 25 tokens a second
    assert patience.most == full_bucket(round(25 * PATIENT))
    patience.took(3, 3.0)
    assert patience.most == full_bucket(round(25 * PATIENT))
    patience.took(patience.most, 600.0)
    assert patience.most == FIRST
    patience.took(FIRST, FIRST / 1000)
    assert patience.most == MAX_BATCH


def test_the_first_step_is_whole_but_of_large_models_on_processors() -> None:
    assert Patience(240 * 10**6, on_cpu=True).most == MAX_BATCH
    assert Patience(40 * 10**9, on_cpu=False).most == MAX_BATCH
    assert Patience(10**9, on_cpu=True).most == FIRST


READERS: dict[str, Callable[[Model], object]] = {
    "embed": lambda model: model.embed([TEXT]),
    "look": lambda model: look(model, TEXT, lens=True),
    "write": lambda model: list(model.generate(TEXT, max_tokens=2)),
    "logits": lambda model: list(model.logits(ids(5, 200))),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    length = (4096, gguf.GGUFValueType.UINT32)
    folder = tmp_path_factory.mktemp("batch")
    return write_tiny(folder / "tiny.gguf", "llama", metadata={"llama.context_length": length})


@pytest.mark.parametrize("reader", READERS)
def test_whatever_reads_a_text_keeps_to_short_steps_where_steps_are_slow(
    reader: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    start = Stepper.start_together

    def noted(self: Stepper, parts: list[StepPart], *more: Any, **named: Any) -> StartedStep:
        sizes.append(sum(len(part.tokens) for part in parts))
        return start(self, parts, *more, **named)

    with load(path, device="host", ctx=2048) as model:
        monkeypatch.setattr(Stepper, "start_together", noted)
        READERS[reader](model)
        assert max(sizes) > 4 * FIRST, "a whole batch where steps are quick"
        sizes.clear()
        clock: Iterator[int] = count(step=600)
        monkeypatch.setattr(stepper, "perf_counter", lambda: next(clock))
        model.loaded.stepper.patience.took(1, 600)
        model.conversation.clear()
        READERS[reader](model)
        assert max(sizes) <= FIRST
        assert sum(sizes) > 4 * FIRST
