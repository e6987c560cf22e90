"""Objects of a JSON schema closed by default: a model invents no keys beside the properties given.

Llama.cpp and xgrammar do the same. An object that says itself what else it may have, by
`additionalProperties` or `unevaluatedProperties`, stays as it is.
"""

from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]

_ONE = ("items", "additionalProperties", "contains", "propertyNames")
_LISTS = ("prefixItems", "items")
_MAPS = ("properties", "patternProperties")
_SHARED = ("$defs", "definitions")
_BRANCHES = ("allOf", "anyOf", "oneOf")
_STAYS = ("additionalProperties", "unevaluatedProperties", "if", "dependentSchemas")
_MOST_PARTS = 2000
"""Parts of schemas that are looked at for the names of properties; beyond them objects stay open.
"""


def closed(schema: Schema) -> Schema:
    """The schema with `additionalProperties: false` in each object that lists its properties and
    says nothing about others.
    """
    made: Schema = _Closer(schema).closed(schema)
    return made


class _Closer:
    def __init__(self, root: Schema) -> None:
        self._root = root
        self._left = _MOST_PARTS
        self._inside: list[str] = []  # references that were put in their places, around this one

    def closed(self, schema: Any) -> Any:
        """A schema and all within it. Where several parts describe one object, as with `allOf`, it
        is closed as a whole: each part allows what the others list.
        """
        if not isinstance(schema, dict):
            return schema
        branches = any(_list(schema.get(key)) for key in _BRANCHES) or "$ref" in schema
        if len(_list(schema.get("allOf"))) < 2 and not ("properties" in schema and branches):
            return _shut(self._within(schema, (*_MAPS, *_SHARED), (*_LISTS, *_BRANCHES)))
        names, is_open = self._names(schema, ())
        made = self._within(self._opened(schema), _SHARED, ())
        if is_open or not names:
            return made
        own = made.get("properties", {})
        missing = {name: True for name in names if name not in own}
        return _shut(made | {"properties": {**own, **missing}})

    def _within(self, schema: Schema, maps: tuple[str, ...], lists: tuple[str, ...]) -> Schema:
        made = dict(schema)
        for key in maps:
            if isinstance(made.get(key), dict):
                made[key] = {name: self.closed(one) for name, one in made[key].items()}
        for key in _ONE if lists else ():
            if isinstance(made.get(key), dict):
                made[key] = self.closed(made[key])
        for key in lists:
            if isinstance(made.get(key), list):
                made[key] = [self.closed(one) for one in made[key]]
        return made

    def _opened(self, schema: Any) -> Any:
        """A part of a schema: what it refers to is put in its place, and only what its properties
        hold is closed.
        """
        self._left -= 1
        if not isinstance(schema, dict) or self._left < 0:
            return schema
        place = schema.get("$ref")
        target = None if place in self._inside else self._target(place)
        if target is not None:
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            self._inside.append(str(place))
            part = self._opened(target)
            self._inside.pop()
            if not rest:
                return part
            schema = {**rest, "allOf": [*_list(rest.get("allOf")), part]}
            return self._within(schema, _MAPS, _LISTS)
        made = self._within(schema, _MAPS, _LISTS)
        for key in _BRANCHES:
            if isinstance(made.get(key), list):
                made[key] = [self._opened(part) for part in made[key]]
        return made

    def _names(self, schema: Any, seen: tuple[str, ...]) -> tuple[list[str], bool]:
        """The properties that a schema lists in any part, and whether it may have others."""
        self._left -= 1
        if not isinstance(schema, dict) or self._left < 0:
            return [], True
        listed = schema.get("properties")
        names = list(listed) if isinstance(listed, dict) else []
        is_open = any(key in schema for key in (*_STAYS, "patternProperties"))
        for part, inside in self._parts(schema, seen):
            more, is_key = self._names(part, inside)
            names += [name for name in more if name not in names]
            is_open = is_open or is_key
        return names, is_open

    def _parts(
        self, schema: Schema, seen: tuple[str, ...]
    ) -> Iterator[tuple[Any, tuple[str, ...]]]:
        for key in _BRANCHES:
            for part in _list(schema.get(key)):
                yield part, seen
        place = schema.get("$ref")
        if place is not None and place not in seen:
            yield self._target(place), (*seen, str(place))

    def _target(self, place: object) -> Any:
        """Return the target of a reference within the same document; None for any other."""
        if not isinstance(place, str) or not place.startswith("#/"):
            return None
        found: Any = self._root
        for step in place[2:].split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or name not in found:
                return None
            found = found[name]
        return found


def _shut(schema: Schema) -> Schema:
    """Closed, unless it says something else. What it requires is listed."""
    listed = schema.get("properties")
    if not isinstance(listed, dict) or any(key in schema for key in _STAYS):
        return schema
    required = [name for name in _list(schema.get("required")) if isinstance(name, str)]
    properties = {**listed, **{name: True for name in required if name not in listed}}
    least = schema.get("minProperties")
    if isinstance(least, int) and least > len(properties):
        return schema
    return schema | {"properties": properties, "additionalProperties": False}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
