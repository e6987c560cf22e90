"""Requests that are refused: the HTTP status, and what each API's own form is made of."""

import logging
import re
import secrets
from typing import Any

import msgspec

from engine.protocol import Failed

log = logging.getLogger("server")

INVALID, AUTHENTICATION, PERMISSION = (
    "invalid_request_error",
    "authentication_error",
    "permission_error",
)
NOT_FOUND, RATE_LIMIT, SERVER, UNAVAILABLE = (
    "not_found_error",
    "rate_limit_error",
    "server_error",
    "unavailable_error",
)
KINDS = {400: INVALID, 401: AUTHENTICATION, 403: PERMISSION, 404: NOT_FOUND, 405: NOT_FOUND}
KINDS |= {413: INVALID, 415: INVALID, 429: RATE_LIMIT, 500: SERVER, 501: INVALID}
KINDS |= {503: UNAVAILABLE}
# What the engine refuses because of the request; other failures are not the client's fault.
WRONG_REQUESTS = {
    *("BadSetting", "BadForm", "BadPicture", "CannotSee", "FormFailed", "GivesNoText"),
    *("CannotFill", "GivesNoScores", "NotSupported", "OnlyRanks"),
    *("TemplateError", "TokenizerError", "UnsupportedModel", "UnsupportedForm"),
}
FIELDS = {
    "arguments": "messages",
    "bias": "logit_bias",
    "parameters": "tools",
    "picture": "messages",
    "prefix_tokens": "messages",
    "prompt_logprobs": "logprobs",
    "prompt_tokens": "prompt",
    "template": "chat_template_kwargs",
}
"""Fields of a request by the engine's names for them."""
FIELD = re.compile(r"\w+(?:\[\d+\]\.\w+)?")
"""A field, or one of a list's item: edits[0].site."""
FULL = re.compile(r"(\d+) tokens do not fit the context of (\d+)")
RETRY_SECONDS = 2


class Refusal(Exception):
    """A request ends with an error: its HTTP `status`, and the error's parts as OpenAI names them.

    `more` are further fields of the error, `headers` of the answer. With `close` the connection
    ends, as what comes on it cannot be trusted or is not wanted.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        more: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        close: bool = False,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code
        self.more, self.headers, self.close = more or {}, headers or {}, close

    @property
    def kind(self) -> str:
        """The error's type, in OpenAI's words."""
        return KINDS[self.status]


class PicturesGone(Refusal):
    """The engine no longer holds pictures that a request shows; the request can be sent again with
    them.
    """

    def __init__(self, failed: Failed) -> None:
        super().__init__(500, "a picture was lost before it was encoded; retry the request")
        self.digests = failed.pictures


def error_value(refusal: Refusal) -> dict[str, dict[str, Any]]:
    """An error as OpenAI's and llama-server's clients read it."""
    parts = {"message": refusal.message, "type": refusal.kind}
    return {"error": parts | {"param": refusal.param, "code": refusal.code} | refusal.more}


def error(refusal: Refusal) -> bytes:
    """The body that says so."""
    return msgspec.json.encode(error_value(refusal))


def field_of(path: str, param: str | None) -> str | None:
    """The field of a request to this path, where chats have the field `param`."""
    if param == "messages" and path.endswith("/responses"):
        return "input"
    plain = path.endswith("/completions") and not path.endswith("/chat/completions")
    return "prompt" if param == "messages" and plain else param


def unavailable(message: str, seconds: int = RETRY_SECONDS) -> Refusal:
    """The model accepts no requests now; it may later."""
    return Refusal(503, message, headers={"retry-after": str(seconds)})


def of_failed(failed: Failed) -> Refusal:
    """Convert a failure of the engine to an error response; details go to the log."""
    full = FULL.match(failed.message)
    if failed.kind == "ContextFull" and full:
        more = {"n_prompt_tokens": int(full[1]), "n_ctx": int(full[2])}
        code = "context_length_exceeded"
        # Programs that shorten a chat by themselves know it by these words.
        text = f"prompt is too long: {full[1]} tokens > {full[2]} maximum (the context length)"
        text += "; shorten it or raise --ctx"
        return Refusal(400, text, param="messages", code=code, more=more)
    if failed.kind == "BadSetting" and failed.message.startswith("model: None"):
        return unavailable("Loading model")
    if failed.kind in WRONG_REQUESTS:
        name, colon, problem = failed.message.partition(": ")
        if not colon or not FIELD.fullmatch(name):
            return Refusal(400, failed.message)
        param = FIELDS.get(name, name)
        field = name if param == "messages" else param  # of all messages, which part
        return Refusal(400, f"{field}: {problem}", param=param)
    if failed.pictures:
        return PicturesGone(failed)
    if failed.kind in ("WorkerDied", "Cancelled"):
        log.warning("a request ended: %s", failed.message)
        return unavailable("the engine stopped and is restarting; retry the request")
    if failed.kind == "NoMem":
        log.warning("out of memory for a request: %s", failed.message)
        return unavailable("out of memory for this request; try a shorter one")
    return a_bug(f"{failed.kind}: {failed.message}")


def a_bug(details: str) -> Refusal:
    """Log an unexpected error and return a response with its number in the log."""
    number = secrets.token_hex(6)
    log.error("error %s: %s", number, details)
    message = f"unexpected error; see the server's log for {number}"
    return Refusal(500, message, code=number, headers={"x-should-retry": "false"})
