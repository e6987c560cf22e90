"""Errors as Ollama's clients read them."""

import msgspec

from app.serve.web.refusal import Refusal


def error(refusal: Refusal) -> bytes:
    """The body of an error."""
    return msgspec.json.encode({"error": refusal.message})


def error_line(refusal: Refusal) -> bytes:
    """An error in a stream."""
    return error(refusal) + b"\n"
