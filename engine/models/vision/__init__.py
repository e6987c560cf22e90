"""Vision towers: a module each, found by the projector's type or a single file's architecture."""

PREFIXES = ("v.", "mm.", "s.", "a.", "resampler.", "adapter.")


def is_vision(name: str) -> bool:
    """Whether a tensor belongs to the part that sees images (or hears)."""
    return name.startswith(PREFIXES)
