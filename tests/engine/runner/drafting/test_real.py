"""Real models on their real device: fifty prompts give the same text with drafts as without."""

from itertools import islice
from pathlib import Path

import pytest

from engine.protocol import Generate, JsonSchema, Sampling, TokenInfo
from engine.runner.api import load
from tests.engine.runner.answering.test_real import SUBJECTS
from tests.engine.runner.drafting.scripted import KINDS, answered

LENGTH, PROMPTS = 24, 50
SCHEMA = (
    '{"type": "object", "properties": {"thing": {"type": "string", "maxLength": 12},'
    ' "is_alive": {"type": "boolean"}}, "required": ["thing", "is_alive"]}'
)
WARM = Sampling(temperature=0.8, seed=7)
SETTINGS: dict[str, dict[str, object]] = {
    "greedy": {"sampling": Sampling(temperature=0)},
    "warm": {"sampling": WARM},
    "schema": {"sampling": WARM, "form": JsonSchema(SCHEMA)},
    "penalties": {"sampling": Sampling(temperature=0, repeat_penalty=1.3)},
    "stops": {"sampling": WARM, "stop": [".", " the"]},
}
FORMS = ("Tell me about {}.", "I like {} because", "List three facts about {}:", "{} {} {}")


def prompts() -> list[str]:
    texts = (form.format(s, s, s) for form in FORMS for s in SUBJECTS)
    return list(islice(texts, PROMPTS))


@pytest.mark.full
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", ["smollm2", "gemma3"])
def test_the_same_text(name: str, setting: str, request: pytest.FixtureRequest) -> None:
    path: Path = request.getfixturevalue(f"{name}_path")
    parted = []
    with load(path, ctx=256) as model:
        for number, text in enumerate(prompts(), 1):
            asked = Generate(
                number, prompt=text, max_tokens=LENGTH, logprobs=2, **SETTINGS[setting]
            )
            plain, expected, end = answered(model, [asked])[number]
            drafted, found, ended = answered(model, [asked], KINDS["third"])[number]
            if drafted != plain:
                parted.append((text, _gap(expected, found)))
            else:
                assert (ended.reason, ended.matched) == (end.reason, end.matched)
    assert not parted, f"{len(parted)} of {PROMPTS} parted, gaps {parted}"


def _gap(expected: list[TokenInfo], found: list[TokenInfo]) -> float:
    """Nats between the two tokens where answers part, as far as the likeliest two say."""
    pairs = zip(expected, found, strict=False)
    one = next((a for a, b in pairs if a.token != b.token), expected[-1])
    return abs(one.top[0].logprob - one.top[1].logprob)
