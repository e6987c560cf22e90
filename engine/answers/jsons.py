"""Bodies of calls that are JSON, by themselves or with a name before it."""

import json
import re
from collections.abc import Callable, Iterator, Mapping

from engine.answers.passages import Call

Calls = list[Call]
Types = Mapping[str, Mapping[str, str]]
"""The JSON types of parameters, by tool and name, as far as they are known."""
Body = Callable[[str, Types], Calls]
"""What is called between two marks; ValueError where it is nothing that can be called."""

NAMES = ("name", "tool_name", "function")
ARGUMENTS = ("arguments", "parameters")
IDS = ("id", "tool_call_id")

_BEGIN, _END, _SEP = (
    f"<\uff5ctool\u2581{word}\uff5c>" for word in ("call\u2581begin", "call\u2581end", "sep")
)
_FENCE = re.compile(r"```(?:json)?\n(.*)\n```", re.DOTALL)


def loaded(text: str) -> object:
    """A JSON value. Raises ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def arguments(text: str) -> dict[str, object]:
    """A JSON object, "" being an empty one. Raises ValueError."""
    value = loaded(text) if text.strip() else {}
    if not isinstance(value, dict):
        raise ValueError("arguments are not an object")
    return value


def named(name: str) -> str:
    """The name of a tool. Raises ValueError for what is none."""
    name = name.strip()
    if not re.fullmatch(r"[\w.\-/:]{1,256}", name):
        raise ValueError("no name of a tool")
    return name


def objects(body: str, types: Types) -> Calls:
    """{"name": f, "arguments": {...}}, one, several in a row, or a list. Raises ValueError."""
    calls: Calls = []
    rest = body.strip()
    while rest:
        try:
            value, end = json.JSONDecoder().raw_decode(rest)
        except RecursionError:
            raise ValueError("nested too deeply") from None
        calls += [_object(item) for item in (value if isinstance(value, list) else [value])]
        rest = rest[end:].lstrip()
    if not calls:
        raise ValueError("no call")
    return calls


def _object(value: object) -> Call:
    if not isinstance(value, dict):
        raise ValueError("a call is not an object")
    if isinstance(value.get("function"), dict):
        return _object({**value["function"], "id": value.get("id", "")})
    name = next((value[key] for key in NAMES if isinstance(value.get(key), str)), "")
    fields: object = next((value[key] for key in ARGUMENTS if key in value), {})
    if isinstance(fields, str):
        fields = arguments(fields)
    if not isinstance(fields, dict):
        raise ValueError("arguments are not an object")
    return Call(named(name), fields, next((str(value[key]) for key in IDS if key in value), ""))


def mistral(body: str, types: Types) -> Calls:
    """A list of objects, or f[ARGS]{...} with [CALL_ID]id before [ARGS]. Raises ValueError."""
    if body.lstrip().startswith("["):
        return objects(body, types)
    head, sep, rest = body.partition("[ARGS]")
    if not sep:
        head, sep, rest = body.partition("{")
        rest = sep + rest
    name, _, call = head.partition("[CALL_ID]")
    return [Call(named(name), arguments(rest), call.strip())]


def deepseek(body: str, types: Types) -> Calls:
    """type<sep>f and a fenced object (V3, R1), or f<sep>{...} (V3.1). Raises ValueError."""
    calls = []
    for inner in between(body, _BEGIN, _END):
        first, _, second = inner.partition(_SEP)
        name, _, fenced = second.partition("\n")
        match = _FENCE.fullmatch(fenced.strip())
        known = (name, match[1]) if match else (first, second)
        calls.append(Call(named(known[0]), arguments(known[1])))
    return calls


def kimi(body: str, types: Types) -> Calls:
    """functions.f:0 and its arguments, each between marks. Raises ValueError."""
    calls = []
    for inner in between(body, "<|tool_call_begin|>", "<|tool_call_end|>"):
        number, _, raw = inner.partition("<|tool_call_argument_begin|>")
        value = loaded(raw)
        name = number.strip().removeprefix("functions.")
        values = arguments(value if isinstance(value, str) else raw)
        calls.append(Call(named(name.rpartition(":")[0] or name), values, number.strip()))
    return calls


def between(text: str, begin: str, end: str) -> Iterator[str]:
    """Yield the texts between marks, which must cover all of `text` except white space. Raises
    ValueError where they do not, or there are none.
    """
    at, found = 0, False
    while text[at:].strip():
        start = text.find(begin, at)
        if start < 0 or text[at:start].strip():
            raise ValueError(f"something other than {begin}")
        stop = text.find(end, start)
        if stop < 0:
            raise ValueError(f"no {end}")
        yield text[start + len(begin) : stop]
        at, found = stop + len(end), True
    if not found:
        raise ValueError(f"no {begin}")
