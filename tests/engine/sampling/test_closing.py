"""Closed schemas against the `jsonschema` package: nothing beside what is listed is valid, and what
was valid without more stays so.
"""

from typing import Any

import jsonschema
import pytest

from engine.sampling.closing import closed
from tests.bounds import at_most_lines

A = {"properties": {"a": {"type": "integer"}}, "required": ["a"]}
B = {"properties": {"b": {"type": "string"}}}
NODE = {
    "$defs": {
        "Base": {"properties": {"id": {"type": "integer"}}, "required": ["id"]},
        "Node": {
            "allOf": [
                {"$ref": "#/$defs/Base"},
                {"properties": {"next": {"allOf": [{"$ref": "#/$defs/Node"}, {"title": "n"}]}}},
            ]
        },
    },
    "$ref": "#/$defs/Node",
}
CASES: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "plain": (A, [{"a": 1}], [{"a": 1, "x": 1}]),
    "inside": (
        {"properties": {"p": A, "q": {"items": B}}},
        [{"p": {"a": 1}, "q": [{"b": "x"}]}],
        [{"x": 1}, {"p": {"a": 1, "x": 1}}, {"q": [{"x": 1}]}],
    ),
    "open": ({**A, "additionalProperties": True}, [{"a": 1, "x": 1}], [{"x": 1}]),
    "typed": ({**A, "additionalProperties": B}, [{"a": 1, "x": {}}], [{"a": 1, "x": {"c": 1}}]),
    "patterns": (
        {**B, "patternProperties": {"^n": {"type": "null"}}},
        [{"b": "x", "n1": None}],
        [{"b": "x", "x": None}],
    ),
    "a dict": ({"type": "object"}, [{}, {"x": 1}], []),
    "nothing": ({"type": "object", "properties": {}}, [{}], [{"x": 1}]),
    "required elsewhere": ({**B, "required": ["c"]}, [{"c": 1}], [{}, {"c": 1, "x": 1}]),
    "more than listed": ({**B, "minProperties": 2}, [{"b": "", "x": 1}], [{"b": ""}]),
    "union": (
        {"anyOf": [A, B, {"type": "null"}]},
        [{"a": 1}, {"b": "x"}, None],
        [{"a": 1, "x": 2}, {"c": 1}],
    ),
    "all": ({"allOf": [A, B]}, [{"a": 1, "b": "x"}, {"a": 1}], [{"b": "x"}, {"a": 1, "c": 1}]),
    "all of one": ({"allOf": [A], "title": "t"}, [{"a": 1}], [{"a": 1, "b": 1}]),
    "beside": (
        {**A, "oneOf": [{"properties": {"k": {"const": 1}}, "required": ["k"]}]},
        [{"a": 1, "k": 1}],
        [{"a": 1}, {"a": 1, "k": 1, "x": 1}],
    ),
    "one open part": ({"allOf": [A, {**B, "additionalProperties": True}]}, [{"a": 1, "x": 1}], []),
    "reference": (
        {"$defs": {"A": A}, "properties": {"p": {"$ref": "#/$defs/A", "title": "t"}}},
        [{"p": {"a": 1}}],
        [{"p": {"a": 1, "x": 1}}, {"x": 1}],
    ),
    "inherited": (
        {"$defs": {"A": A}, "allOf": [{"$ref": "#/$defs/A"}, B]},
        [{"a": 1, "b": "x"}],
        [{"a": 1, "x": 1}],
    ),
    "of itself": (
        NODE,
        [{"id": 1}, {"id": 1, "next": {"id": 2, "next": {"id": 3}}}],
        [{"id": 1, "x": 1}, {"id": 1, "next": {"id": 2, "x": 1}}],
    ),
    "data, not schemas": (
        {"const": {"properties": {"a": 1}}},
        [{"properties": {"a": 1}}],
        [{"properties": {"a": 1}, "additionalProperties": False}],
    ),
    "truth": (True, [1, {"x": 1}], []),
}


@pytest.mark.parametrize("case", CASES)
def test_objects_are_closed(case: str) -> None:
    schema, fit, unfit = CASES[case]
    made = jsonschema.Draft202012Validator(closed(schema))
    given = jsonschema.Draft202012Validator(schema)
    for value in fit:
        assert given.is_valid(value)
        assert made.is_valid(value), value
    for value in unfit:
        assert not made.is_valid(value), value


def test_the_schema_given_is_left_as_it_is() -> None:
    before = repr(NODE)
    closed(NODE)
    assert repr(NODE) == before


def test_references_that_double_at_each_level_are_bounded() -> None:
    defs: dict[str, Any] = {
        f"n{i}": {"allOf": [{"$ref": f"#/$defs/n{i + 1}"}] * 2} for i in range(40)
    }
    with at_most_lines(3_000_000):
        closed({"$defs": defs | {"n40": A}, "allOf": [{"$ref": "#/$defs/n0"}, B]})
