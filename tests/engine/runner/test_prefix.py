"""Answers that exist in part: by ids, by text, cut inside a character, at their end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import BadSetting, TokenizerError
from engine.protocol import ChatMessage, Finished, Generate, Piece, Sampling
from engine.runner.api import Model, load
from engine.runner.generate import generate
from engine.runner.sequence import Sequenced

pytestmark = [pytest.mark.model_file]
ASK = Generate(
    1,
    messages=[ChatMessage("user", "Name the capital of France.")],
    sampling=Sampling(temperature=0),
    max_tokens=8,
)


class Asked:
    """A model and one sequence for all questions, so that the prompt is read once."""

    def __init__(self, model: Model) -> None:
        self.loaded = model.loaded
        self.sequence = Sequenced(model.loaded.stepper)


@pytest.fixture(scope="module")
def model(smollm2_path: Path) -> Iterator[Asked]:
    with load(smollm2_path, ctx=256) as model:
        yield Asked(model)


def answer(model: Asked, **changes: object) -> tuple[str, list[int], Finished]:
    request = Generate(
        **{name: getattr(ASK, name) for name in Generate.__struct_fields__} | changes
    )
    events = list(generate(model.loaded, model.sequence, request, lambda: False))
    pieces = [event for event in events if isinstance(event, Piece)]
    assert isinstance(events[-1], Finished)
    ids = [info.token for piece in pieces for info in piece.tokens]
    return "".join(piece.text for piece in pieces), ids, events[-1]


def test_the_rest_is_the_same(model: Asked) -> None:
    text, ids, _ = answer(model)
    begun = model.loaded.tokenizer.decode(ids[:3])
    by_ids = answer(model, prefix=begun, prefix_tokens=ids[:3], max_tokens=5)
    by_text = answer(model, prefix=begun, max_tokens=5)
    assert by_ids[:2] == by_text[:2] == (text.removeprefix(begun), ids[3:])
    assert by_ids[2].stats.n_prompt == by_text[2].stats.n_prompt


def test_what_the_ids_say_beyond_the_text_comes_first(model: Asked) -> None:
    text, ids, _ = answer(model)
    again, new, _ = answer(model, prefix="", prefix_tokens=ids[:3], max_tokens=5)
    assert (again, new) == (text, ids[3:])


def test_a_character_cut_in_two(model: Asked) -> None:
    tokenizer = model.loaded.tokenizer
    ids = tokenizer.encode("ok 🦀", add_special=False)
    cut = next(n for n in range(1, len(ids)) if tokenizer.decode(ids[:n]).endswith("\ufffd"))
    text, _, _ = answer(model, prefix="ok ", prefix_tokens=ids[:cut], max_tokens=0)
    assert text == "\ufffd"  # what never became a character, at the end only
    text, _, _ = answer(model, prefix="ok ", prefix_tokens=ids, max_tokens=0)
    assert text == "🦀"


def test_an_end_of_answer_ends_it(model: Asked) -> None:
    end = next(iter(model.loaded.tokenizer.eog))
    text, ids, finished = answer(model, prefix_tokens=[end])
    assert (text, ids, finished.reason) == ("", [], "stop")


def test_ids_of_another_text(model: Asked) -> None:
    with pytest.raises(BadSetting, match="begins 'no'"):
        answer(model, prefix="no", prefix_tokens=[100, 200])
    with pytest.raises(TokenizerError):
        answer(model, prefix_tokens=[10_000_000])
