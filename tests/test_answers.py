"""SmolLM2 at its own sampling answers what is offered, and every answer ends."""

from pathlib import Path

import pytest

from app.defaults import SMOLLM2
from engine.runner import load
from tests.answers import RIGHT, Asked, ended, repeated, right_answers


def test_repeated_tokens_are_counted() -> None:
    assert repeated([1, 2, 3, 4]) == 0
    assert repeated([9, 1, 2, 1, 2, 1]) == 3
    assert repeated(list(range(64)) * 3) == 128


@pytest.mark.full
@pytest.mark.model_file
def test_offered_questions_are_answered_rightly(smollm2_path: Path) -> None:
    assert set(SMOLLM2) < set(RIGHT)
    with load(smollm2_path, ctx=2048) as model:
        asked = Asked(model, smollm2_path)
        for question in RIGHT:
            right, longest = right_answers(asked, question)
            assert right >= (23 if question in SMOLLM2 else 22), question
            assert longest <= 300, question


@pytest.mark.full
@pytest.mark.model_file
def test_every_answer_ends(smollm2_path: Path) -> None:
    with load(smollm2_path, ctx=4096) as model:
        for question, reason, n, again in ended(Asked(model, smollm2_path), 200):
            assert reason in ("stop", "loop", "context", "length"), question
            assert again <= 128, (question, reason, n)
