"""JSON that is nearly right: what a program must refuse, or take without harm."""

import copy
import json
import random
from typing import Any

HOSTILE: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**53, 2**63, 2**64, 2**70, -(2**63), 0.5, -1e-300, 1e18, 1e308,
    "", "x", "\0", "\x1b[2J", "<img src='file:///dev/zero'>", "\u202e", "🦀" * 1000, "x" * 70_000,
    [], {}, [[]], [{}], {"a": {}}, "AAAA", "////", "cutaway-chat", "user", "assistant", "system",
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if not isinstance(value, dict | list):
        return []
    found = []
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        found += [(*path, key), *places(inner, (*path, key))]
    return found


def mutated(good: Any, draw: random.Random) -> bytes:
    """JSON of a good value after a few changes to its structure, now and then to its bytes."""
    value: Any = copy.deepcopy(good)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        *above, key = draw.choice(places(value))
        inner = value
        for step in above:
            inner = inner[step]
        action = draw.random()
        if action < 0.7:
            alike = [other for other in HOSTILE if type(other) is type(inner[key])]
            inner[key] = copy.deepcopy(draw.choice(alike or HOSTILE if action < 0.5 else HOSTILE))
        elif action < 0.8:
            del inner[key]
        elif action < 0.9 and isinstance(inner, list):
            inner.insert(draw.randrange(len(inner) + 1), copy.deepcopy(inner[key]))
        else:
            inner[str(key) if isinstance(inner, dict) else key] = copy.deepcopy(good)
        if not places(value):
            break
    content = bytearray(json.dumps(value).encode())
    for _ in range(draw.choice((0, 0, 0, 0, 1, 3))):
        content[draw.randrange(len(content))] = draw.randrange(256)
    return bytes(content)
