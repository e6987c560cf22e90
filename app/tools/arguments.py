"""Checks of a call's arguments by the schema of its tool, which a hostile server may have written.

References to other documents are not followed, patterns have a time limit, and all steps together
a bound.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import regex

MOST_STEPS = 20_000
PATTERN_S = 0.2
LONGEST = 1 << 20  # characters of arguments
PATTERNS = "patternProperties"
UNCHECKED = (PATTERNS, "unevaluatedProperties", "unevaluatedItems")


class _TooHard(Exception):
    """A schema that takes too many steps."""


def arguments_problem(schema: str, arguments: str) -> str:
    """Why a call cannot be made with these arguments, JSON as text; empty where it can."""
    if len(arguments) > LONGEST:
        return f"the arguments have {len(arguments)} characters; {LONGEST} are the most"
    try:
        value = json.loads(arguments or "{}")
        rule = json.loads(schema or "{}")
    except (ValueError, RecursionError):
        return "the arguments are not valid JSON"
    if not isinstance(value, dict):
        return "the arguments are not a JSON object"
    return _by_schema(rule, value)


def _by_schema(rule: Any, value: dict[str, Any]) -> str:
    try:
        from jsonschema import Draft202012Validator, exceptions, validators
        from referencing import Registry
        from referencing.exceptions import Unresolvable
    except ImportError:  # tools of servers come with it, and built-in ones check their own
        return ""
    steps = [0]

    def counted(check: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
        def run(validator: Any, part: Any, instance: Any, whole: Any) -> Iterator[Any]:
            steps[0] += 1
            if steps[0] > MOST_STEPS:
                raise _TooHard
            if PATTERNS not in whole:  # by which keywords beside it would search without a limit
                yield from check(validator, part, instance, whole) or ()

        return run

    def pattern(validator: Any, part: Any, instance: Any, whole: Any) -> Iterator[Any]:
        if isinstance(instance, str) and not regex.search(part, instance, timeout=PATTERN_S):
            yield exceptions.ValidationError(f"{instance[:80]!r} does not match {part[:80]!r}")

    known = {**Draft202012Validator.VALIDATORS, "pattern": pattern}
    kind = validators.create(
        Draft202012Validator.META_SCHEMA,
        {name: counted(check) for name, check in known.items() if name not in UNCHECKED},
    )
    try:
        if not isinstance(rule, dict):
            raise TypeError
        error = next(kind(rule, registry=Registry()).iter_errors(value), None)
    except (_TooHard, TimeoutError):
        return "the tool's schema takes too long to check"
    except (Unresolvable, RecursionError, TypeError, ValueError, AttributeError, KeyError) as wrong:
        return f"the tool's schema is not valid ({type(wrong).__name__})"
    except (regex.error, exceptions.SchemaError):
        return "the tool's schema is not valid"
    if error is None:
        return ""
    where = "/".join(map(str, error.absolute_path))
    return f"{where}: {error.message[:500]}" if where else error.message[:500]
