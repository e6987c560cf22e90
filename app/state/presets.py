"""Numbers of sampling that a person sets, named presets of them with a system prompt, and limits
that end an answer.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import structs

from app.language import mark
from engine.protocol import Sampling, WhenFull

LONGEST = 1 << 20  # tokens
MOST_STOPS = 16
LONGEST_STOP = 200  # characters
StopText = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_STOP)]


class AnswerLimits(msgspec.Struct, frozen=True):
    """Limits for all chats with a model. `max_tokens` None sets none; answers end before any of
    `stop`, and with `stop_loops` where they repeat themselves.
    """

    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=LONGEST)] | None = None
    stop: Annotated[list[StopText], msgspec.Meta(max_length=MOST_STOPS)] = []
    when_full: WhenFull = "stop"
    stop_loops: bool = True


NONE = AnswerLimits()  # but the context itself

LONGEST_PROMPT = 100_000  # characters
LONGEST_PROMPT_NAME = 200


class OwnSampling(msgspec.Struct, frozen=True, omit_defaults=True):
    """The fields of `Sampling` that a person set; None leaves one to what suits the model."""

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repeat_penalty: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    penalty_last_n: int | None = None
    seed: int | None = None

    @property
    def values(self) -> dict[str, Any]:
        """The fields that are set."""
        return {name: value for name, value in structs.asdict(self).items() if value is not None}

    def check(self) -> None:
        """Raise `BadSetting` for the first value out of its range."""
        structs.replace(Sampling(), **self.values).check()


def own_of_whole(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a person set, where all were kept: those that differ from the program's."""
    usual = structs.asdict(Sampling())
    return {name: value for name, value in values.items() if value != usual.get(name)}


class Preset(msgspec.Struct, frozen=True):
    """A field of `sampling` that is None stays with the model; `system` None leaves the prompt."""

    name: str
    sampling: OwnSampling
    system: str | None = None


class SavedPrompt(msgspec.Struct, frozen=True):
    """A text that a person sends again and again."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_PROMPT_NAME)]
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_PROMPT)]


SUGGESTED = Preset(mark("Model default"), OwnSampling())
BUILT_IN = (
    SUGGESTED,
    Preset(mark("Precise"), OwnSampling(temperature=0.2, top_p=0.9)),
    Preset(mark("Creative"), OwnSampling(temperature=1.1, top_k=0, min_p=0.03)),
)
