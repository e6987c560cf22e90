"""Bodies of tool calls: as in Python, as Gemma 4 writes values, or marked up."""

import ast
import json

from engine.answers.jsons import Body, Calls, Types, between, loaded, named, objects
from engine.answers.passages import Call

LONGEST = 1 << 18
"""Characters of calls that are parsed as Python."""
QUOTE = '<|"|>'
_CONSTANTS = {"true": True, "false": False, "null": None, "none": None}


def python(body: str, types: Types) -> Calls:
    """[f(a=1), g()] or a call a line, with JSON's constants too. Raises ValueError."""
    if len(body) > LONGEST:
        raise ValueError("too long")
    try:
        tree = ast.parse(body.strip())
        calls = [
            item
            for line in tree.body
            for item in (_items(line.value) if isinstance(line, ast.Expr) else [None])
        ]
        if not calls:
            raise ValueError("no call")
        return [_called(call) for call in calls]
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(str(error)) from None


def _items(value: ast.expr) -> list[ast.expr]:
    return value.elts if isinstance(value, ast.List) else [value]


def _called(node: ast.expr | None) -> Call:
    if not isinstance(node, ast.Call) or node.args:
        raise ValueError("no call by names")
    arguments = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise ValueError("no name of an argument")
        arguments[keyword.arg] = _literal(keyword.value)
    json.dumps(arguments, allow_nan=False)  # ValueError, or TypeError for what JSON does not know
    return Call(named(ast.unparse(node.func)), arguments)


def _literal(node: ast.expr) -> object:
    if isinstance(node, ast.Name) and node.id in _CONSTANTS:
        return _CONSTANTS[node.id]
    if isinstance(node, ast.List):
        return [_literal(item) for item in node.elts]
    if isinstance(node, ast.Dict):
        keys = [_literal(key) if key is not None else None for key in node.keys]
        if not all(isinstance(key, str) for key in keys):
            raise ValueError("a key is not a string")
        return {str(k): _literal(v) for k, v in zip(keys, node.values, strict=True)}
    value: object = ast.literal_eval(node)
    if not isinstance(value, str | int | float | bool | None):
        raise ValueError("a value that is not JSON")
    return value


def gemma(body: str, types: Types) -> Calls:
    """call:f{k:<|"|>text<|"|>,n:1,l:[..]}: the values are JSON but for quotes and bare keys.
    Raises ValueError.
    """
    head, sep, rest = body.strip().removeprefix("call:").partition("{")
    if not sep:
        raise ValueError("no values")
    pieces = ("{" + rest).split(QUOTE)
    if len(pieces) % 2 == 0:
        raise ValueError("a text does not end")
    texts = [json.dumps(text) if i % 2 else _keyed(text) for i, text in enumerate(pieces)]
    try:
        values = json.loads("".join(texts))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return [Call(named(head), values)]


def _keyed(text: str) -> str:
    """With quotes around the keys: what stands between { or , and a colon."""
    parts, at = [], 0
    for i, character in enumerate(text):
        if character in "{,[":
            parts.append(text[at : i + 1])
            at = i + 1
        elif character == ":":
            key = text[at:i].strip()
            parts.append(f"{json.dumps(key)}:" if key and key[0] not in '"' else text[at : i + 1])
            at = i + 1
    return "".join([*parts, text[at:]])


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
    values = {}
    for parameter in between(rest, begin, end) if rest.strip() else ():
        key, sep, value = parameter.partition(closed)
        if not sep:
            raise ValueError("a parameter's name does not end")
        values[key.strip()] = _value(
            value.removeprefix("\n").removesuffix("\n"), known.get(key.strip(), "")
        )
    return Call(named(name), values)


def _pairs(body: str, types: Types) -> Call:
    """f<arg_key>k</arg_key><arg_value>v</arg_value>, repeated."""
    at = body.find("<arg_key>")
    name, rest = (body, "") if at < 0 else (body[:at], body[at:])
    known = types.get(name.strip(), {})
    values = {}
    while rest.strip():
        before, _, value = rest.partition("<arg_value>")
        (key,) = between(before, "<arg_key>", "</arg_key>")
        value, sep, rest = value.partition("</arg_value>")
        if not sep:
            raise ValueError("a value does not end")
        values[key.strip()] = _value(value, known.get(key.strip(), ""))
    return Call(named(name), values)


def _value(text: str, kind: str) -> object:
    if kind == "string":
        return text
    try:
        return loaded(text)
    except ValueError:
        return text
