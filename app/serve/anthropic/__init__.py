"""Anthropic's interface: messages, and their tokens counted."""

from app.serve.anthropic.events import error
from app.serve.anthropic.messages import count_tokens, messages
from app.serve.web.site import Dialect, with_and_without

ANTHROPIC = Dialect(
    with_and_without(
        "/v1",
        {
            ("POST", "/v1/messages"): messages,
            ("POST", "/v1/messages/count_tokens"): count_tokens,
        },
    ),
    error,
    prefixes=("/v1/messages", "/messages"),
)
