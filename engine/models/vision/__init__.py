"""Vision towers: a module each, found by the projector's type or a single file's architecture."""

import re

PREFIXES = ("v.", "mm.", "s.", "a.", "resampler.", "adapter.")
TOWER = f"^(?:{'|'.join(map(re.escape, PREFIXES))})"
"""A pattern that matches every tensor of a tower."""


def is_vision(name: str) -> bool:
    """True if a tensor belongs to the part for images (or sound)."""
    return name.startswith(PREFIXES)
