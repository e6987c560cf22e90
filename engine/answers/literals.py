"""Bodies of calls that are written as in Python, or as Gemma 4 writes values."""

import ast
import json

from engine.answers.jsons import Calls, Types, named
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
    given = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise ValueError("no name of an argument")
        given[keyword.arg] = _literal(keyword.value)
    json.dumps(given, allow_nan=False)  # ValueError, or TypeError for what JSON does not know
    return Call(named(ast.unparse(node.func)), given)


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
