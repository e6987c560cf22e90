"""Results of calls within bounds: as text and pictures that a model may read."""

import base64
import binascii
import json
from collections.abc import Generator
from typing import Any

from app.tools.tool import ToolResult
from engine.units import MIB

MOST_BYTES = 16 * MIB
MOST_PICTURES = 4
MOST_TOKENS = 16_000
SHARE = 4  # of the context, which one result may take
TRIES = 6
BYTES = 2  # of a token at least, mostly
LEFT_OUT = "[picture left out]"


def result_of(answer: Any) -> ToolResult:
    """The result of an SDK's `CallToolResult`. Links are named, never followed."""
    texts: list[str] = []
    pictures: list[bytes] = []
    left = MOST_BYTES
    for block in answer.content:
        kind = getattr(block, "type", "")
        if kind == "text":
            text = block.text
        elif kind == "image":
            picture = _decoded(block.data, left)
            if picture is not None and len(pictures) < MOST_PICTURES:
                pictures.append(picture)
                left -= len(picture)
                continue
            text = LEFT_OUT
        elif kind == "resource_link":
            text = f"[link {block.uri}]"
        elif kind == "resource":
            text = getattr(block.resource, "text", None) or f"[data of {block.resource.uri}]"
        else:
            text = f"[{kind or 'unknown'} left out]"
        text = cut_to(text, left)
        left -= len(text.encode("utf-8", "surrogatepass"))
        texts.append(text)
    structured = getattr(answer, "structured_content", None)
    if structured is not None and not texts and not pictures:
        texts.append(cut_to(json.dumps(structured, ensure_ascii=False), left))
    text = "\n".join(texts).encode("utf-8", "replace").decode()
    failed = bool(answer.is_error)
    return ToolResult(f"error: {text}" if failed else text, tuple(pictures), failed)


def _decoded(data: str, most: int) -> bytes | None:
    if len(data) * 3 // 4 > most:
        return None
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None


def cut_to(text: str, most: int) -> str:
    """A text of at most so many UTF-8 bytes: its beginning and its end, with a note between."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= most:
        return text
    half = max(0, most // 2 - 64)
    begin, end = data[:half].decode("utf-8", "ignore"), data[len(data) - half :]
    return f"{begin}{_note(len(text))}{end.decode('utf-8', 'ignore') if half else ''}"


def most_tokens(n_ctx: int) -> int:
    """Tokens that one result may take in a context of `n_ctx`; 0 is a context of unknown size."""
    return min(MOST_TOKENS, n_ctx // SHARE) if n_ctx else MOST_TOKENS


def bounding(text: str, most: int) -> Generator[str, int | None, str]:
    """Cut the middle of a text that has more than `most` tokens. Yields texts, takes the number of
    tokens of each (None: not known, then BYTES count as one); returns the text.
    """
    shown, kept = text, len(text)
    for _ in range(TRIES):
        if len(shown.encode("utf-8", "surrogatepass")) <= most:
            return shown  # no token is shorter than a byte
        count = yield shown
        if count is None:
            count = -(-len(shown.encode("utf-8", "surrogatepass")) // BYTES)
        if count <= most:
            return shown
        kept = max(0, int(kept * most / count * 0.95) - 8)
        half = kept // 2
        shown = text[:half] + _note(len(text) - 2 * half) + text[len(text) - half :]
    return text[: most // 2] + _note(len(text) - most // 2)


def bounded(text: str, most: int) -> str:
    """The same where nobody counts tokens."""
    cutting = bounding(text, most)
    try:
        next(cutting)
        while True:
            cutting.send(None)
    except StopIteration as done:
        return str(done.value)


def _note(left_out: int) -> str:
    return f"\n[… {left_out} characters left out …]\n"
