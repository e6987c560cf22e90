"""Vision towers: one module each is to come, found by the projector's type.

Until then the tensors of a tower inside a text model's file are told apart, so that memory records
name them and the user hears that pictures are not read.
"""

PREFIXES = ("v.", "mm.", "s.")


def is_vision(name: str) -> bool:
    """Whether a tensor belongs to the part that sees images (or hears)."""
    return name.startswith(PREFIXES)
