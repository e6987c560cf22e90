"""JSON bodies as structs: what is unknown is ignored, what is wrong is named."""

import re
from typing import TypeVar

import msgspec

from app.serve.web.refusal import Refusal

T = TypeVar("T")
NULL = msgspec.Raw(b"null")
"""A value of any kind that is not there: `Raw | None` would take none but null."""
PLACE = re.compile(r" - at `(?:key in )?\$\.?(.*)`$")


def raw_text(raw: msgspec.Raw) -> str | None:
    """A value's JSON; None for null."""
    text = bytes(raw).decode()
    return None if text.strip() == "null" else text


def decoded(data: bytes, kind: type[T]) -> T:
    """A body. Raises `Refusal` that names the field."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        place = PLACE.search(str(error))
        what = PLACE.sub("", str(error)).replace("`", "")
        param = place[1] if place and place[1] else None
        raise Refusal(400, f"{param}: {what}" if param else what, param=param) from None
    except RecursionError:
        raise Refusal(400, "the body is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refusal(400, f"the body is not JSON: {error}") from None
