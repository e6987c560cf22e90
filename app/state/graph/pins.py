"""Pins of nodes as parts of a placement's rule: ^ffn_inp-3$=pocl:0."""

import re

from app.state.graph.blocks import NUMBERED
from engine.protocol import GraphNode

_PLAIN = re.compile(r"[\w\-]+")


def can_pin(node: GraphNode) -> bool:
    """Return whether a rule can name the node: an operation with a plain name from the model."""
    named = NUMBERED.match(node.name) is None and _PLAIN.fullmatch(node.name) is not None
    return node.role == "" and named


def part_of(name: str) -> str:
    """The pattern that names a node and nothing else."""
    return f"^{name}$"


def pinned(rule: str, name: str) -> str | None:
    """Where a rule pins a node by its own name; None where it does not."""
    for part in rule.split(","):
        pattern, _, device = part.strip().rpartition("=")
        if pattern == part_of(name):
            return device
    return None


def with_pin(rule: str, name: str, device: str | None) -> str:
    """The rule with this pin in place of another of the same node; None takes it away."""
    kept = [part for part in rule.split(",") if part and not _is_of(part, name)]
    if device is not None:
        kept.append(f"{part_of(name)}={device}")
    return ",".join(kept)


def _is_of(part: str, name: str) -> bool:
    return part.strip().rpartition("=")[0] == part_of(name)
