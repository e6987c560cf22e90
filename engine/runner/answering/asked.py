"""What can be asked of a model."""

from engine.errors import BadSetting, GivesNoText
from engine.models.base import Output
from engine.protocol import Generate
from engine.runner.loading import LoadedModel

MAX_LOGPROBS = 256


def check(model: LoadedModel, request: Generate) -> None:
    """Raise `GivesNoText`, `BadSetting`."""
    if model.built.output is not Output.LOGITS:
        raise GivesNoText(model.built.arch)
    if not 0 <= request.logprobs <= MAX_LOGPROBS:
        raise BadSetting("logprobs", request.logprobs, f"a number from 0 to {MAX_LOGPROBS}")
    if not 0 <= (request.prompt_logprobs or 0) <= MAX_LOGPROBS:
        value = request.prompt_logprobs
        raise BadSetting("prompt_logprobs", value, f"a number from 0 to {MAX_LOGPROBS}")
    if request.max_tokens is not None and request.max_tokens < 0:
        raise BadSetting("max_tokens", request.max_tokens, "0 or more")
