"""Bodies of calls that are marked up: functions with parameters, or keys with values.

Values are text there: what the tool's schema calls a string stays as it is written, and any other
is the JSON value that it spells, or else text.
"""

from engine.answers.jsons import Body, Calls, Types, between, loaded, named, objects
from engine.answers.passages import Call


def tagged(body: str, types: Types) -> Calls:
    """Parse the contents of <tool_call>: an object, <function=...>, or a name with keys and values.
    Raises ValueError.
    """
    start = body.lstrip()
    if start.startswith(("{", "[")):
        return objects(body, types)
    if start.startswith("<function="):
        return functions(body, types)
    return [_pairs(body, types)]


def functions(body: str, types: Types) -> Calls:
    """<function=f><parameter=k>v</parameter></function>, repeated. Raises ValueError."""
    return [
        _function(inner, ">", "<parameter=", "</parameter>", types)
        for inner in between(body, "<function=", "</function>")
    ]


def invokes(space: str) -> Body:
    """The reader of <invoke name="f"><parameter name="k">v</parameter></invoke>, whose tags' names
    `space` stands before.
    """

    def read(body: str, types: Types) -> Calls:
        begin, end = f'<{space}parameter name="', f"</{space}parameter>"
        inners = between(body, f'<{space}invoke name="', f"</{space}invoke>")
        return [_function(inner, '">', begin, end, types) for inner in inners]

    return read


def _function(inner: str, closed: str, begin: str, end: str, types: Types) -> Call:
    """A name up to `closed`, then parameters between `begin` and `end`, each named likewise."""
    name, sep, rest = inner.partition(closed)
    if not sep:
        raise ValueError("a function's name does not end")
    known = types.get(name.strip(), {})
    given = {}
    for parameter in between(rest, begin, end) if rest.strip() else ():
        key, sep, value = parameter.partition(closed)
        if not sep:
            raise ValueError("a parameter's name does not end")
        given[key.strip()] = _value(
            value.removeprefix("\n").removesuffix("\n"), known.get(key.strip(), "")
        )
    return Call(named(name), given)


def _pairs(body: str, types: Types) -> Call:
    """f<arg_key>k</arg_key><arg_value>v</arg_value>, repeated."""
    at = body.find("<arg_key>")
    name, rest = (body, "") if at < 0 else (body[:at], body[at:])
    known = types.get(name.strip(), {})
    given = {}
    while rest.strip():
        before, _, value = rest.partition("<arg_value>")
        (key,) = between(before, "<arg_key>", "</arg_key>")
        value, sep, rest = value.partition("</arg_value>")
        if not sep:
            raise ValueError("a value does not end")
        given[key.strip()] = _value(value, known.get(key.strip(), ""))
    return Call(named(name), given)


def _value(text: str, kind: str) -> object:
    if kind == "string":
        return text
    try:
        return loaded(text)
    except ValueError:
        return text
