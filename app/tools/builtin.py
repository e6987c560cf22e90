"""Tools that need no server. They are off until a person turns them on, and change nothing."""

import ast
import json
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from app.documents.document import Document
from app.tools.tool import KnownTool, ToolResult, failure

LONGEST = 1000  # characters of an expression
MOST_NODES = 300
MOST_BITS = 4096  # of a whole number
MOST_PARTS = 200  # lines or pages that one call returns

OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


def _schema(required: Sequence[str], **properties: dict[str, str]) -> str:
    return json.dumps({"type": "object", "properties": properties, "required": list(required)})


CALCULATOR = KnownTool(
    *("", "", "calculator", "calculator"),
    "Calculates an expression of numbers with +, -, *, /, //, %, ** and parentheses.",
    _schema(["expression"], expression={"type": "string"}),
)
CURRENT_TIME = KnownTool(
    *("", "", "current_time", "current_time"),
    "Returns the current local date and time with its offset from UTC.",
    _schema([]),
)
READ_ATTACHMENT = KnownTool(
    *("", "", "read_attachment", "read_attachment"),
    "Reads a document of this chat by its name: the lines (or pages of a PDF) 'from' to 'to',"
    f" counted from 1, at most {MOST_PARTS}. Without a name it lists the documents.",
    json.dumps(
        {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "from": {"type": "integer", "minimum": 1},
                "to": {"type": "integer", "minimum": 1},
            },
        }
    ),
)
BUILT_IN = {tool.name: tool for tool in (CALCULATOR, CURRENT_TIME, READ_ATTACHMENT)}


def run_built_in(tool: KnownTool, arguments: str, documents: Sequence[Document]) -> ToolResult:
    """The result of a call of one of BUILT_IN; `documents` are those of the chat."""
    fields: dict[str, Any] = json.loads(arguments or "{}")
    try:
        if tool.name == "calculator":
            return ToolResult(calculated(fields.get("expression")))
        if tool.name == "current_time":
            return ToolResult(datetime.now().astimezone().isoformat(timespec="seconds"))
        return _read(documents, fields)
    except (ValueError, ArithmeticError, TypeError) as error:
        return failure(str(error))


def calculated(expression: object) -> str:
    """The value of an expression. Raises ValueError, and ArithmeticError for a division by 0."""
    if not isinstance(expression, str) or len(expression) > LONGEST:
        raise ValueError(f"expression: expected a text of at most {LONGEST} characters")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError(f"{expression[:80]!r} is not an expression of numbers") from None
    if sum(1 for _ in ast.walk(tree)) > MOST_NODES:
        raise ValueError("the expression is too long")
    value = _value(tree.body)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("the result is not a finite number")
    return str(value) if isinstance(value, int) else repr(value)


def _value(node: ast.expr) -> int | float:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return _bounded(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
        value = _value(node.operand)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        left, right = _value(node.left), _value(node.right)
        if isinstance(node.op, ast.Pow):
            _check_power(left, right)
        return _bounded(OPERATORS[type(node.op)](left, right))
    raise ValueError("only numbers, +, -, *, /, //, %, ** and parentheses are known")


def _check_power(base: int | float, exponent: int | float) -> None:
    whole = isinstance(base, int) and isinstance(exponent, int)
    if whole and exponent > 0 and base.bit_length() * exponent > MOST_BITS:  # type: ignore[union-attr]
        raise ValueError("the result is too large")


def _bounded(value: Any) -> int | float:
    if isinstance(value, complex):
        raise ValueError("the result is not a real number")
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise ValueError("the result is too large")
    number: int | float = value
    return number


def _read(documents: Sequence[Document], fields: Mapping[str, Any]) -> ToolResult:
    names = [document.name for document in documents]
    if not fields.get("name"):
        if not names:
            return failure("this chat has no documents")
        parts = [f"{d.name} ({len(d.parts())} {d.unit}s)" for d in documents]
        return ToolResult("\n".join(parts))
    document = next((d for d in reversed(documents) if d.name == fields["name"]), None)
    if document is None:
        known = ", ".join(names) or "none"
        return failure(f"there is no document {str(fields['name'])[:200]!r}; documents: {known}")
    n = len(document.parts())
    first = int(fields.get("from") or 1)
    last = min(int(fields.get("to") or n), n, first + MOST_PARTS - 1)
    if not 1 <= first <= last:
        return failure(f"{document.name} has the {document.unit}s 1 to {n}")
    text = document.part(first, last).text
    return ToolResult(f"{document.name}, {document.unit}s {first} to {last} of {n}:\n{text}")
