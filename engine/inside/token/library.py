"""Inspecting a token from Python: `look(model, "The capital of France is", lens=True)`."""

from collections.abc import Mapping, Sequence
from typing import Any

from engine.inside.token.examine import examine
from engine.protocol import Examine, Examined
from engine.runner.api import Image, Model


def look(
    model: Model,
    prompt: str | Sequence[Mapping[str, str]],
    *,
    images: Sequence[Image] = (),
    **wanted: Any,
) -> Examined:
    """How a token of a prompt came to be, or the one that would follow: `prompt` and `images` are
    as in `Model.generate`, all else are fields of `engine.protocol.Examine`.

    Raises as `engine.inside.token.examine`.
    """
    text, messages = model.prompt_of(prompt, images)
    request = Examine(0, messages=messages, prompt=text, **wanted)
    *_, found = examine(model.loaded, model.conversation, request, lambda: False)
    assert isinstance(found, Examined)
    return found
