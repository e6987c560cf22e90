"""From a chat with pictures to its answer: plan, tower, items, logits, against transformers.

The pictures need no resizing but for an overview, which Pillow makes on both sides.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind

from engine.backends.opencl.drivers.device import list_devices
from engine.images.decode import Picture
from engine.protocol import ChatMessage, Generate, PictureLimits, PicturePart, TextPart
from engine.runner import load
from engine.runner.api import Model
from engine.runner.pictures.items import tokens_of
from engine.runner.prompt import Prompt, make_prompt
from engine.runner.sequence import Sequenced
from engine.runner.stepper import Logits
from tests.goldens.vision.families import write_pair, write_single
from tests.goldens.vision.store import Case, load_cases
from tests.truth.compare import nmse

PAIRS = (
    *("gemma3", "gemma4", "gemma4e", "gemma4u", "idefics3", "mistral3", "llava", "pixtral"),
    *("llava_next", "internvl", "lfm2"),
    *("qwen2vl", "qwen25vl", "qwen3vl", "qwen35", "llama4"),
    *("glm4v", "glm4vmoe", "glmocr", "minicpmv", "kimivl"),
    *("paddleocr", "hunyuanvl", "lightonocr", "dotsocr", "minicpmv46", "kimik25", "janus"),
)
SINGLES = ("gemma3", "mistral3", "qwen25vl", "qwen3vl", "llama4", "mllama")
FILES = [(family, False) for family in PAIRS] + [(family, True) for family in SINGLES]
CASES = [
    pytest.param(family, is_single, name, id=f"{family}-{name}{'-single' * is_single}")
    for family, is_single in FILES
    for name in load_cases(family)
]
OPENCL = [pytest.param(i.name, marks=pytest.mark.device, id=i.name) for i in list_devices()]
NEAR = 0.01
"""Logits that are nearer are not asked for their order."""


@contextmanager
def opened(
    folder: Path,
    family: str,
    is_single: bool = False,
    device: str = "host",
    kv: str = "f32",
    kind: Kind = Kind.F32,
    place: str = "",
) -> Iterator[Model]:
    """The family's text and tower from one of its layouts; `kind` is the tower's of a pair."""
    if is_single:
        path, tower = write_single(folder, family), ""
    else:
        path, mmproj = write_pair(folder, family, kind)
        tower = str(mmproj)
    with load(path, device=device, ctx=512, kv=kv, mmproj=tower, place=place) as model:
        yield model


def prompt_of(model: Model, case: Case) -> Prompt:
    """The case's message through the file's own template."""
    loaded = model.loaded
    assert loaded.viewer is not None
    seen = iter(case.seen)
    content: list[TextPart | PicturePart] = []
    for text in case.parts:
        if text is not None:
            content.append(TextPart(text))
            continue
        each = next(seen)
        picture = Picture(each.picture)
        loaded.viewer.album.put_pixels(picture)
        limits = PictureLimits(one_view=len(each.views) == 1)
        content.append(PicturePart(picture.digest, limits))
    request = Generate(0, messages=[ChatMessage("user", content)])
    return make_prompt(loaded.tokenizer, loaded.template, request, 512, loaded.viewer)


def begun(model: Model, prompt: Prompt) -> tuple[Sequenced, Logits]:
    """A fresh context of the prompt, and the logits behind it."""
    sequence = Sequenced(model.loaded.stepper, model.loaded.viewer)
    model.loaded.stepper.forget(0)
    steps = sequence.prefill(prompt.items, lambda: False)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return sequence, end.value


def error(found: np.ndarray, expected: np.ndarray) -> float:
    value = nmse(found, expected)
    print(f"{value:.1e}")
    return value


@pytest.mark.each_value
@pytest.mark.parametrize(("family", "is_single", "name"), CASES)
def test_the_answer_is_that_of_transformers(
    family: str, is_single: bool, name: str, tmp_path: Path
) -> None:
    case = load_cases(family)[name]
    with opened(tmp_path, family, is_single) as model:
        prompt = prompt_of(model, case)
        np.testing.assert_array_equal(tokens_of(prompt.items), case.ids)
        sequence, logits = begun(model, prompt)
        assert error(logits, case.logits[-1]) < 1e-9
        for token, margin in zip(case.greedy.tolist(), case.margins.tolist(), strict=True):
            assert margin < NEAR or int(logits.argmax()) == token
            logits = sequence.append(token)


@pytest.mark.full_cases(r"pocl|-(?!gemma3\])\w+\]")  # towers of f16 are in test_rows_on_devices
@pytest.mark.parametrize("family", PAIRS)
@pytest.mark.parametrize("device", OPENCL)
def test_on_devices_with_a_tower_of_f16(device: str, family: str, tmp_path: Path) -> None:
    case = list(load_cases(family).values())[-1]
    with opened(tmp_path, family, device=device, kv="f16", kind=Kind.F16) as model:
        _, logits = begun(model, prompt_of(model, case))
    assert error(logits, case.logits[-1]) < 1e-4


@pytest.mark.sampled(3)
@pytest.mark.device
@pytest.mark.parametrize("family", PAIRS)
def test_tower_and_text_on_two_devices(family: str, tmp_path: Path) -> None:
    names = [info.name for info in list_devices()]
    first, second = names[0], [*names[1:], "host"][0]
    place = rf"0-1={first},2={second},v\..*={second},out={first}"
    case = list(load_cases(family).values())[-1]
    with opened(tmp_path, family, device=first, kv="f16", place=place) as model:
        _, logits = begun(model, prompt_of(model, case))
    assert error(logits, case.logits[-1]) < 1e-4


def test_q8_0_towers_lose_little(tmp_path: Path) -> None:
    """Blocks of 8 bits round the weights; the towers' own tests bound what a device adds."""
    case = load_cases("gemma3")["two"]
    with opened(tmp_path, "gemma3", kind=Kind.Q8_0) as model:
        _, logits = begun(model, prompt_of(model, case))
    assert 1e-9 < error(logits, case.logits[-1]) < 1e-2
