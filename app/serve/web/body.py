"""JSON bodies as structs: what is unknown is ignored, what is wrong is named."""

import re
from typing import TypeVar

import msgspec

from app.serve.web.refusal import Refusal

T = TypeVar("T", bound=msgspec.Struct)
PLACE = re.compile(r" - at `(?:key in )?\$\.?(.*)`$")


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
        raise Refusal(400, f"the body is no JSON: {error}") from None
