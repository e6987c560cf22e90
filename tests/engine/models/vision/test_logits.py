"""Text models behind pictures against float32 transformers, on the golden's own rows, on the host.

`KNOWN` are the families whose text model is there. Two pictures stand in one prompt; Gemma's first
one begins behind more text than its window holds.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.errors import BadFile
from engine.runner import load
from engine.runner.api import Model
from engine.runner.sequence import Sequenced
from tests.engine.models.vision.prompts import TOGETHER, Prompt, prompt_of, seeing
from tests.goldens.vision.families import PAIR, SINGLE, TEXTS, files_of, write_pair, write_single
from tests.goldens.vision.store import Case, load_cases, load_state
from tests.truth.compare import nmse

KNOWN = (
    *("gemma3", "gemma4", "gemma4e", "gemma4u", "idefics3", "mistral3", "llava", "pixtral"),
    *("llava_next", "internvl", "lfm2"),
    *("qwen2vl", "qwen25vl", "qwen3vl", "qwen35", "llama4"),
    *("glm4v", "glm4vmoe", "glmocr", "minicpmv", "kimivl"),
    *("paddleocr", "hunyuanvl", "lightonocr", "dotsocr", "minicpmv46", "kimik25", "janus"),
)
KNOWN_SINGLE = ("gemma3", "mistral3", "qwen25vl", "qwen3vl", "llama4")
NEAR = 0.01
"""Logits that are nearer are not asked for their order."""

CASES = [
    pytest.param(family, name, id=f"{family}-{name}")
    for family in KNOWN
    for name in load_cases(family)
]


@contextmanager
def opened(
    folder: Path,
    family: str,
    case: Case,
    is_single: bool = False,
) -> Iterator[tuple[Model, Prompt]]:
    """The text model of one of the family's layouts, and the prompt of a case."""
    path = write_single(folder, family) if is_single else write_pair(folder, family)[0]
    prompt = prompt_of(family, case)
    with load(path, device="host", ctx=512, kv="f32", mmproj="none") as model:
        width = model.tensor("token_embd.weight").shape[1]
        yield seeing(model, prompt.rows.shape[1] // width), prompt


def run(model: Model, prompt: Prompt, keep: int, size: int = 512) -> np.ndarray:
    """Logits f32 [keep, V] of the last positions of a fresh context, fed in parts of `size`."""
    stepper = model.loaded.stepper
    stepper.forget(0)
    made = []
    for start in range(0, len(prompt.tokens), size):
        tokens, extras = prompt.part(start, start + size)
        logits = stepper.step(tokens, start, range(len(tokens)), extras=extras)
        made.append(logits[: len(tokens)].copy())
    return np.concatenate(made)[-keep:]


def error(found: np.ndarray, case: Case) -> float:
    total = nmse(found, case.logits)
    worst = max(nmse(*pair) for pair in zip(found, case.logits, strict=True))
    print(f"{case.name}: {total:.1e}, worst position {worst:.1e}")
    return total


def check_answer(found: np.ndarray, case: Case) -> None:
    """Each token of the answer is the largest logit, where the reference's lead is clear."""
    clear = case.margins > NEAR
    assert clear.sum() >= len(clear) - 4
    np.testing.assert_array_equal(found.argmax(axis=1)[clear], case.greedy[clear])


@pytest.mark.parametrize(("family", "name"), CASES)
def test_logits_and_answers_are_transformers(family: str, name: str, tmp_path: Path) -> None:
    case = load_cases(family)[name]
    with opened(tmp_path, family, case) as (model, prompt):
        assert error(run(model, prompt, len(case.logits)), case) < 1e-9
        whole = prompt.followed(case.greedy[:-1])
        check_answer(run(model, whole, len(case.greedy)), case)


@pytest.mark.parametrize("sections", [[1], [9] * 5, [4, 4, 4], [-1, 5, 4], [1 << 30, 0, 0]])
@pytest.mark.parametrize("architecture", ["qwen2vl", "qwen3vl"])
def test_sections_are_shares_of_the_pairs(
    architecture: str, sections: list[int], tmp_path: Path
) -> None:
    family, _ = TEXTS[architecture]
    file = files_of(family).text(load_state(family))
    keys = dict(file.metadata) | {f"{architecture}.rope.dimension_sections": sections}
    path = replace(file, metadata=keys).write(tmp_path / "odd.gguf")
    with pytest.raises(BadFile, match=r"rope\.dimension_sections"):
        load(path, device="host", ctx=64).close()


@pytest.mark.parametrize("family", [f for f in SINGLE if f in KNOWN_SINGLE])
def test_both_layouts_give_the_same_logits(family: str, tmp_path: Path) -> None:
    case = list(load_cases(family).values())[-1]
    made = []
    for is_single in (False, True)[family not in PAIR :]:
        with opened(tmp_path, family, case, is_single) as (model, prompt):
            made.append(run(model, prompt, len(case.logits)))
    assert error(made[-1], case) < 1e-9
    np.testing.assert_array_equal(made[0], made[-1])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", [7, 64])
@pytest.mark.parametrize("family", [f for f in KNOWN if f not in TOGETHER])
def test_a_prompt_may_come_in_parts(family: str, size: int, tmp_path: Path) -> None:
    case = list(load_cases(family).values())[-1]
    with opened(tmp_path, family, case) as (model, prompt):
        assert error(run(model, prompt, len(case.logits), size), case) < 1e-9


def test_chunks_that_would_move_are_computed_again(tmp_path: Path) -> None:
    """A shift moves tokens from chunk to chunk; what stays is that of a fresh context."""
    tokens = load_cases("llama4")["two"].ids
    kept = tokens[tokens >= 0].tolist()[:96]
    path = write_pair(tmp_path, "llama4")[0]
    with load(path, device="host", ctx=100, kv="f32") as model:
        shifted = Sequenced(model.loaded.stepper)
        for _ in shifted.prefill(kept, lambda: False):
            pass
        shifted.shift(4, lambda: False)
        rest = kept[:4] + kept[-len(shifted.items) + 4 :]
        assert shifted.items == rest
        after = shifted.append(7)
        *_, (_, fresh) = model.loaded.stepper.all_logits([*rest, 7])
    assert nmse(after, fresh[-1]) < 1e-9
