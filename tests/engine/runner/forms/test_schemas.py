"""Public schemas: whatever a model says of one is valid, as the `jsonschema` package has it."""

import json
import lzma
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from jsonschema.validators import validator_for

from engine.protocol import ChatMessage, Finished, Generate, JsonSchema, Piece, Sampling
from engine.runner.api import Model, load
from engine.runner.generate import generate
from engine.runner.sequence import Sequenced

FOLDER = Path(__file__).parents[3] / "goldens"
KEPT: list[dict[str, Any]] = json.loads(lzma.decompress((FOLDER / "schemas.json.xz").read_bytes()))[
    "schemas"
]
# A random model does not come upon a word or a sign that a text must have somewhere; and the
# package knows \\W as Python does, not as schemas do.
UNFIT = re.compile(r"cole|email|\\\\W")
SCHEMAS = [one for one in KEPT if not UNFIT.search(json.dumps(one["schema"]))]
FEW = SCHEMAS[::18]


@pytest.fixture(scope="module")
def tiny(tiny_path: Path) -> Iterator[Model]:
    with load(tiny_path, device="host") as model:
        yield model


def answered(model: Model, sequence: Sequenced, schema: dict[str, Any], seed: int) -> str:
    """A whole answer. What closes JSON is made likelier, so that a random model comes to an end."""
    tokenizer = model.loaded.tokenizer
    closing = {'"': 9.0, "}": 2.0, "]": 2.0}
    found = {tokenizer.id(text): weight for text, weight in closing.items()}
    bias = {token: weight for token, weight in found.items() if token is not None}
    bias |= dict.fromkeys(tokenizer.eog, 12.0)
    request = Generate(
        1,
        messages=[ChatMessage("user", "Say some JSON.")],
        sampling=Sampling(temperature=1.0, seed=seed),
        bias=bias,
        form=JsonSchema(json.dumps(schema)),
        max_tokens=None,
        when_full="stop",
    )
    heard = list(generate(model.loaded, sequence, request, lambda: False))
    end = heard[-1]
    assert isinstance(end, Finished)
    text = "".join(event.text for event in heard if isinstance(event, Piece))
    assert end.reason == "stop", text
    return text


def all_valid(model: Model, schemas: list[dict[str, Any]], seeds: range) -> None:
    sequence = Sequenced(model.loaded.stepper)
    wrong, kinds = [], set()
    for one in schemas:
        for seed in seeds:
            text = answered(model, sequence, one["schema"], seed)
            try:
                value = json.loads(text)
                validator_for(one["schema"])(one["schema"]).validate(value)
                kinds.add(type(value))
            except (ValueError, jsonschema.ValidationError) as error:
                wrong.append((one["name"], text, str(error)[:200]))
    assert not wrong
    assert len(kinds) > 3  # they are about more than one thing


def test_a_handful(tiny: Model) -> None:
    all_valid(tiny, FEW, range(2))


@pytest.mark.full
def test_two_hundred(tiny: Model) -> None:
    assert len(SCHEMAS) >= 200
    all_valid(tiny, SCHEMAS, range(2))


@pytest.mark.full
@pytest.mark.model_file
@pytest.mark.device
def test_two_hundred_by_a_real_model(smollm2_path: Path) -> None:
    with load(smollm2_path, ctx=1024) as model:
        all_valid(model, SCHEMAS, range(1))
