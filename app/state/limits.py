"""Settings that end an answer, or drop messages when the context is full."""

from typing import Annotated

import msgspec

from engine.protocol import WhenFull

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
